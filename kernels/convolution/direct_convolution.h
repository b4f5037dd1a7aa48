// Causal depthwise convolution by its definition: for filters of up to some hundred taps, where a
// transform and its passes over memory cost more than the products.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "kernels/runtime/execution_path.h"

namespace mixerbench::kernels {

// y_t = sum_{s<=t} filter_{t-s} u_s for t in S-T..S-1, the last T = num_outputs of S inputs: u
// [B,S,D], filter [L,D], zero from L on, L <= S -> [B,T,D]. Both float32 or both float64.
//
// The device function (float32) is exact sums in float32, whatever the precision of matrix
// products: an input that is not finite reaches later outputs of its channel alone. Cost: B T
// min(S, L) D multiply-adds, less those before the first input, and as many for each gradient. The
// reference is one product with a [T,S,D] tensor, for which inputs must be finite.
at::Tensor DirectConvolution(const at::Tensor& u, const at::Tensor& filter,
                             std::int64_t num_outputs, ExecutionPath path = ExecutionPath::kFast);

// Whether the device function takes these sizes and is faster than transforms
// (direct_convolution.md).
bool PrefersDirectConvolution(const at::Tensor& u, const at::Tensor& filter,
                              std::int64_t num_outputs);

}  // namespace mixerbench::kernels
