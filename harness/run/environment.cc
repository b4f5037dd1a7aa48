// SPDX-License-Identifier: Apache-2.0
#include "harness/run/environment.h"

#include <fstream>
#include <string>

#include <torch/headeronly/version.h>

#include "base/version.h"
#include "harness/device/device.h"

namespace mixerbench::harness {
namespace {

std::string CpuModel() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

}  // namespace

Value DescribeEnvironment(at::Device device, Dtype dtype, bool is_strict) {
  return Object{{"tool", ToolVersion()},
                {"libtorch", TORCH_VERSION},
                {"cuda", CudaVersions()},
                {"device", device.is_cuda() ? "cuda" : "cpu"},
                {"gpu", DescribeGpu(device)},
                {"cpu", Object{{"model", CpuModel()}, {"threads", 1}}},
                {"determinism", Object{{"deterministic_algorithms", is_strict ? "strict" : "warn"},
                                       {"cudnn_benchmark", false},
                                       {"tf32", dtype == Dtype::kTf32}}}};
}

}  // namespace mixerbench::harness
