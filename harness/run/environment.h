// What the numbers were made with: versions, device, numerics. No host, user or path. What the
// driver does not tell is absent.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <c10/core/Device.h>

#include "base/value.h"
#include "harness/device/gpu_monitor.h"
#include "harness/suite/train_config.h"

namespace mixerbench::harness {

// What all machines of one kind share, that is what bits may depend on. Call it in the thread that
// ran the cell: threads of libtorch's operations are counted for each.
Value DescribeEnvironment(at::Device device, Dtype dtype, bool is_strict, const GpuMonitor& gpu);

// Adds what the driver tells to the versions of CUDA and to the facts of the GPU (CudaVersions,
// DescribeGpu); to null nothing.
void AddDriverFacts(const GpuMonitor& gpu, Value& cuda, Value& facts);

// How a GPU is at one moment.
struct GpuState {
  std::optional<std::int64_t> sm_clock_mhz;
  std::optional<std::int64_t> memory_clock_mhz;
  std::optional<std::uint64_t> throttle;  // bits
};

GpuState StateOf(const GpuMonitor& gpu);

// Which machine of its kind it is: a container, a GPU by a hash of its UUID with its power limit
// and its state, which was `start` and is what it is now. null when nothing is known.
Value DescribeMachine(const GpuMonitor& gpu, const GpuState& start);

// The 64 digits of the container that a process is in, by its /proc/self/cgroup and
// /proc/self/mountinfo; nothing when they name none.
std::optional<std::string> ContainerId(const std::string& cgroup, const std::string& mountinfo);

}  // namespace mixerbench::harness
