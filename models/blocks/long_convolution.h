// Causal convolution with a filter as long as the input.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "kernels/core.h"

namespace mixerbench::models {

// y_t = sum_{s<=t} filter_{t-s} * u_s for t in S-T..S-1, the last T of S inputs: u [B,S,D], filter
// [S,D] -> [B,T,D] with T = num_outputs.
// Cost: by its definition O(B S T D), fast by FFT of length 2 S, O(B D S log S).
at::Tensor LongConvolution(const at::Tensor& u, const at::Tensor& filter, std::int64_t num_outputs,
                           kernels::ExecutionPath path);

}  // namespace mixerbench::models
