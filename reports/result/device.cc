// SPDX-License-Identifier: Apache-2.0
#include "reports/result/device.h"

#include "io/value_path.h"

namespace mixerbench::reports {

std::string DeviceOf(const CellResult& cell) {
  const bool is_cpu = io::StringAt(cell.environment, "device") == "cpu";
  const std::string gpu = is_cpu ? "" : io::StringAt(cell.environment, "gpu.name");
  return gpu.empty() ? io::StringAt(cell.environment, "cpu.model") : gpu;
}

}  // namespace mixerbench::reports
