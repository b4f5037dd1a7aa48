// The memory that a piece of work takes on a device: bytes of tensors, as the framework's allocator
// counts them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include <c10/core/Device.h>

namespace mixerbench::harness {

// Counts what is allocated while it lives. On the CPU by the calling thread alone (and the backward
// passes that it starts), so make it before the tensors whose end shall count; on a CUDA device by
// everybody, so nobody else may use the device through this process.
class MemoryMeter {
 public:
  explicit MemoryMeter(at::Device device);
  ~MemoryMeter();
  MemoryMeter(const MemoryMeter&) = delete;
  MemoryMeter& operator=(const MemoryMeter&) = delete;

  // Forgets the peak so far.
  void ResetPeak();

  // Most bytes held at once since then, beyond those held when the meter was made.
  std::int64_t PeakBytes() const;

 private:
  struct CpuCounter;

  at::Device device_;
  std::int64_t baseline_ = 0;        // of a CUDA device
  std::unique_ptr<CpuCounter> cpu_;  // nullptr on a CUDA device
};

}  // namespace mixerbench::harness
