// SPDX-License-Identifier: Apache-2.0
#include "reports/result/device.h"

namespace mixerbench::reports {
namespace {

std::string TextAt(const Value& environment, const char* part, const char* key) {
  const Value* const object = environment.Find(part);
  const Value* const text = object ? object->Find(key) : nullptr;
  return text && text->is_string() ? text->as_string() : "";
}

}  // namespace

std::string DeviceOf(const CellResult& cell) {
  const Value* const device = cell.environment.Find("device");
  const bool is_cpu = device && *device == Value("cpu");
  const std::string gpu = is_cpu ? "" : TextAt(cell.environment, "gpu", "name");
  return gpu.empty() ? TextAt(cell.environment, "cpu", "model") : gpu;
}

}  // namespace mixerbench::reports
