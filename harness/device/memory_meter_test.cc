// SPDX-License-Identifier: Apache-2.0
#include "harness/device/memory_meter.h"

#include <thread>

#include <ATen/ops/empty.h>

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

at::Tensor Bytes(std::int64_t count) { return at::empty({count}, at::kByte); }

TEST_CASE("memory: the peak of tensors held at once, and again after a reset") {
  MemoryMeter meter(at::kCPU);
  const at::Tensor kept = Bytes(1 << 20);
  { const at::Tensor gone = Bytes(1 << 22); }
  CHECK(meter.PeakBytes() == (1 << 20) + (1 << 22));
  meter.ResetPeak();
  CHECK(meter.PeakBytes() == 1 << 20);
  { const at::Tensor gone = Bytes(1 << 10); }
  CHECK(meter.PeakBytes() == (1 << 20) + (1 << 10));
}

TEST_CASE("memory: what other threads and earlier work hold does not count") {
  const at::Tensor before = Bytes(1 << 24);
  const MemoryMeter meter(at::kCPU);
  const at::Tensor kept = Bytes(1 << 20);
  std::thread([] { Bytes(1 << 22); }).join();
  CHECK(meter.PeakBytes() == 1 << 20);
}

}  // namespace
}  // namespace mixerbench::harness
