// Causal convolution with a filter as long as the input.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "kernels/core.h"

namespace mixerbench::models {

// y_t = sum_{s<=t} filter_{t-s} * u_s for t in S-T..S-1, the last T of S inputs: u [B,S,D], filter
// [L,D] -> [B,T,D] with T = num_outputs. Any L: the filter is zero from L on. Both in float32 or
// both in float64. An input that is not finite makes all that the filter takes from it not finite,
// and perhaps every later output of its channel; it changes no earlier one and no other channel.
//
// Cost: on a GPU in float32, for filters of up to some hundred taps, the sums themselves
// (kernels/convolution/direct_convolution.h); else by FFT, O(B D S log S), padded to at least
// S + L - 1, so that nothing wraps around, with gradients that are correlations of the same length.
// The reference is the sum in O(B S T D).
at::Tensor LongConvolution(const at::Tensor& u, const at::Tensor& filter, std::int64_t num_outputs,
                           kernels::ExecutionPath path);

// The smallest even length of an FFT that is at least `length` and has no prime factor above 5.
std::int64_t FftLength(std::int64_t length);

}  // namespace mixerbench::models
