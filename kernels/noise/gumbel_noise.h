// Noise of routers as a pure function of a seed in device memory: a step that is captured in a
// graph draws a new seed with every replay, and whoever has the seed draws the same noise again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace mixerbench::kernels {

// Gumbel(0, 1), fp32 on the device of `seed` (one int64); element i is that of keyed_gumbel.h. The
// CPU and the GPU agree up to the rounding of logarithms.
at::Tensor GumbelNoise(at::IntArrayRef sizes, const at::Tensor& seed);

}  // namespace mixerbench::kernels
