// SPDX-License-Identifier: Apache-2.0
#include "harness/run/environment.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <regex>
#include <string_view>
#include <utility>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <torch/headeronly/version.h>

#include "base/sha256.h"
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

// Of a file without a size, as those of /proc; empty when there is none.
std::string ReadAll(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

template <typename T>
void AddKnown(std::string_view key, const std::optional<T>& fact, Object& object) {
  if (fact) object[std::string(key)] = *fact;
}

Value Describe(const GpuState& state) {
  Object object;
  AddKnown("sm_clock_mhz", state.sm_clock_mhz, object);
  AddKnown("memory_clock_mhz", state.memory_clock_mhz, object);
  if (state.throttle) {
    const auto names = ThrottleNames(*state.throttle);
    object["throttle"] = Array(names.begin(), names.end());
  }
  return object;
}

Value Determinism(Dtype dtype, bool is_strict) {
  const at::Context& context = at::globalContext();
  Object switches{{"deterministic_algorithms", is_strict ? "strict" : "warn"},
                  {"fill_uninitialized_memory", context.deterministicFillUninitializedMemory()},
                  {"cudnn_benchmark", context.benchmarkCuDNN()},
                  {"cudnn_deterministic", context.deterministicCuDNN()},
                  {"tf32", dtype == Dtype::kTf32}};
  if (const char* workspace = std::getenv("CUBLAS_WORKSPACE_CONFIG")) {
    switches["cublas_workspace_config"] = workspace;
  }
  return switches;
}

}  // namespace

Value DescribeEnvironment(at::Device device, Dtype dtype, bool is_strict, const GpuMonitor& gpu) {
  Value cuda = CudaVersions();
  Value facts = DescribeGpu(device);
  AddDriverFacts(gpu, cuda, facts);
  return Object{{"tool", ToolVersion()},
                {"libtorch", TORCH_VERSION},
                {"cuda", std::move(cuda)},
                {"device", device.is_cuda() ? "cuda" : "cpu"},
                {"gpu", std::move(facts)},
                {"cpu", Object{{"model", CpuModel()}, {"threads", at::get_num_threads()}}},
                {"determinism", Determinism(dtype, is_strict)}};
}

void AddDriverFacts(const GpuMonitor& gpu, Value& cuda, Value& facts) {
  if (cuda.is_object()) AddKnown("nvidia_driver", gpu.DriverVersion(), cuda.as_object());
  if (!facts.is_object()) return;
  AddKnown("max_sm_clock_mhz", gpu.MaxSmClockMhz(), facts.as_object());
  AddKnown("max_memory_clock_mhz", gpu.MaxMemoryClockMhz(), facts.as_object());
  AddKnown("ecc", gpu.HasEcc(), facts.as_object());
  AddKnown("mig", gpu.HasMig(), facts.as_object());
}

GpuState StateOf(const GpuMonitor& gpu) {
  return {.sm_clock_mhz = gpu.SmClockMhz(),
          .memory_clock_mhz = gpu.MemoryClockMhz(),
          .throttle = gpu.ThrottleReasons()};
}

Value DescribeMachine(const GpuMonitor& gpu, const GpuState& start) {
  Object facts;
  if (const auto uuid = gpu.Uuid()) facts["uuid_hash"] = "sha256:" + Sha256Hex(*uuid);
  AddKnown("power_limit_w", gpu.PowerLimitWatts(), facts);
  for (const auto& [key, state] : {std::pair{"start", start}, {"end", StateOf(gpu)}}) {
    Value described = Describe(state);
    if (!described.as_object().empty()) facts[key] = std::move(described);
  }
  Object machine;
  AddKnown("container", ContainerId(ReadAll("/proc/self/cgroup"), ReadAll("/proc/self/mountinfo")),
           machine);
  if (!facts.empty()) machine["gpu"] = std::move(facts);
  return machine.empty() ? Value() : Value(std::move(machine));
}

std::optional<std::string> ContainerId(const std::string& cgroup, const std::string& mountinfo) {
  // "0::/system.slice/docker-<id>.scope", "12:cpuset:/docker/<id>",
  // ".../cri-containerd-<id>.scope". A container with groups of its own sees "/" there, and files
  // such as /etc/hostname that are mounted from "/var/lib/docker/containers/<id>/", or
  // "overlay-containers". Other ids of 64 digits among the mounts are of layers of its image.
  static const std::regex in_group("[/-]([0-9a-f]{64})(\\.scope)?(\n|$)");
  static const std::regex in_mounts("containers/([0-9a-f]{64})/");
  std::smatch found;
  if (std::regex_search(cgroup, found, in_group) ||
      std::regex_search(mountinfo, found, in_mounts)) {
    return found[1].str();
  }
  return std::nullopt;
}

}  // namespace mixerbench::harness
