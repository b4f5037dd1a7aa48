// Sums of complex exponentials over the modes of a diagonal system, and the sums over time that are
// their transpose: convolution kernels, what a state contributes later, and states at the end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace mixerbench::models {

// Both write l = q + Q n, so that e^{l a} is a product of two small tables and the sums are matrix
// products: nothing of the size H M L is formed. The tables are evaluated in float64: l Im(a)
// reaches thousands of turns, where float32 has no digits left. Gradients by hand: each of the two
// is the other's backward pass. H channels, M modes, R rows (1, or a batch).

// sum_{r,h}(l) = 2 Re sum_m weights[r,h,m] e^{l exponents[h,m]} for l in 0..length-1. weights
// [R,H,M] complex, exponents [H,M] complex128 with real parts <= 0 -> [R,H,length], the real dtype
// of weights.
at::Tensor ModeSum(const at::Tensor& weights, const at::Tensor& exponents, std::int64_t length);

// sum_l x[r,h,l] e^{l exponents[h,m]}. x [R,H,L] real -> [R,H,M], the complex dtype of x.
at::Tensor ModeMoments(const at::Tensor& x, const at::Tensor& exponents);

}  // namespace mixerbench::models
