// SPDX-License-Identifier: Apache-2.0
#include "kernels/noise/gumbel_noise.h"

#include <ATen/ops/empty.h>

#include "base/check.h"
#include "kernels/device/launch.h"
#include "kernels/noise/gumbel_noise_cuda.h"
#include "kernels/noise/keyed_gumbel.h"

namespace mixerbench::kernels {

at::Tensor GumbelNoise(at::IntArrayRef sizes, const at::Tensor& seed) {
  Require(seed.scalar_type() == at::kLong && seed.numel() == 1, "a seed is one int64");
  const at::Tensor noise = at::empty(sizes, seed.options().dtype(at::kFloat));
  auto* values = noise.mutable_data_ptr<float>();
  if (seed.is_cuda()) {
    OnDeviceOf(seed, "GumbelNoise", [&](CUstream_st* stream) {
      return LaunchGumbelNoise(
          {.seed = seed.const_data_ptr<std::int64_t>(), .noise = values, .size = noise.numel()},
          stream);
    });
    return noise;
  }
  const auto key = static_cast<std::uint64_t>(*seed.const_data_ptr<std::int64_t>());
  for (std::int64_t first = 0; first < noise.numel(); first += kGumbelBlock) {
    const GumbelNoiseBlock block =
        GumbelBlock(key, static_cast<std::uint64_t>(first / kGumbelBlock));
    for (std::int64_t i = 0; i < kGumbelBlock && first + i < noise.numel(); ++i) {
      values[first + i] = block.x[i];
    }
  }
  return noise;
}

}  // namespace mixerbench::kernels
