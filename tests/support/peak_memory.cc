// SPDX-License-Identifier: Apache-2.0
#include "tests/support/peak_memory.h"

#include <algorithm>
#include <memory>

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

namespace mixerbench::testing {
namespace {

class Recorder final : public c10::MemoryReportingInfoBase {
 public:
  // `size` is negative when memory is given back.
  void reportMemoryUsage(void*, std::int64_t size, std::size_t, std::size_t, c10::Device) override {
    current_ += size;
    peak_ = std::max(peak_, current_);
  }
  bool memoryProfilingEnabled() const override { return true; }
  std::int64_t peak() const { return peak_; }

 private:
  std::int64_t current_ = 0;
  std::int64_t peak_ = 0;
};

}  // namespace

std::int64_t PeakTensorBytes(const std::function<void()>& work) {
  const auto recorder = std::make_shared<Recorder>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, recorder);
  work();
  return recorder->peak();
}

}  // namespace mixerbench::testing
