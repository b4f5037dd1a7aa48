// SPDX-License-Identifier: Apache-2.0
#include "harness/device/memory_meter.h"

#include <algorithm>

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include "harness/device/device.h"

namespace mixerbench::harness {
namespace {

// libtorch tells this object of every allocation of the threads that carry it.
class AllocationCounter final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, std::int64_t size, std::size_t, std::size_t,
                         c10::Device device) override {
    if (!device.is_cpu()) return;
    held_ += size;
    peak_ = std::max(peak_, held_);
  }
  bool memoryProfilingEnabled() const override { return true; }

  void ResetPeak() { peak_ = held_; }
  std::int64_t peak() const { return peak_; }

 private:
  std::int64_t held_ = 0;
  std::int64_t peak_ = 0;
};

}  // namespace

struct MemoryMeter::CpuCounter {
  std::shared_ptr<AllocationCounter> counter = std::make_shared<AllocationCounter>();
  c10::DebugInfoGuard guard{c10::DebugInfoKind::PROFILER_STATE, counter};
};

MemoryMeter::MemoryMeter(at::Device device) : device_(device) {
  if (device.is_cuda()) {
    baseline_ = internal::CudaMemory(device.index()).held_bytes;
  } else {
    cpu_ = std::make_unique<CpuCounter>();
  }
}

MemoryMeter::~MemoryMeter() = default;

void MemoryMeter::ResetPeak() {
  if (cpu_) {
    cpu_->counter->ResetPeak();
  } else {
    internal::CudaResetPeakMemory(device_.index());
  }
}

std::int64_t MemoryMeter::PeakBytes() const {
  if (cpu_) return cpu_->counter->peak();
  return internal::CudaMemory(device_.index()).peak_bytes - baseline_;
}

}  // namespace mixerbench::harness
