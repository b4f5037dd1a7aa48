// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/ceilings.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>

#include "harness/device/device.h"
#include "tests/support/tensors.h"

namespace mixerbench::testing {
namespace {

double MedianSeconds(const std::function<void()>& work) {
  std::array<double, 15> samples;
  work();  // chooses the kernel of a product
  for (double& sample : samples) {
    sample = harness::TimeMilliseconds(at::Device(at::kCUDA, 0), work) / 1e3;
  }
  std::ranges::nth_element(samples, samples.begin() + samples.size() / 2);
  return samples[samples.size() / 2];
}

}  // namespace

Ceilings MeasureCeilings() {
  constexpr std::int64_t kBytes = std::int64_t{1} << 30;
  constexpr std::int64_t kWidth = 8192;
  const auto on_gpu = at::TensorOptions(at::kCUDA);
  const at::Tensor from = at::empty({kBytes}, on_gpu.dtype(at::kByte)).fill_(1);
  at::Tensor to = at::empty_like(from);
  const at::Tensor a = RandomNormal({kWidth, kWidth}, 1, at::kFloat).to(at::kCUDA, at::kBFloat16);
  const at::Tensor b = RandomNormal({kWidth, kWidth}, 2, at::kFloat).to(at::kCUDA, at::kBFloat16);
  at::Tensor product = at::empty_like(a);
  return {.bytes_per_second = 2.0 * kBytes / MedianSeconds([&] { to.copy_(from); }),
          .flops_per_second =
              2.0 * kWidth * kWidth * kWidth / MedianSeconds([&] { at::mm_out(product, a, b); })};
}

}  // namespace mixerbench::testing
