// Sums of log decays along a sequence, and how their gradient becomes that of the decays.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace mixerbench::kernels::softmax_attention {

// c of softmax_attention.md for log decays [B,S,H]: [B,H,S] in fp64. A reset (minus infinity)
// counts as a decay behind which every weight is zero, so that all differences are numbers.
at::Tensor SumLogDecay(const at::Tensor& log_decay);

// x in fp64 as two parts, whose differences are as exact together as those of x.
struct SplitTensor {
  at::Tensor coarse;  // x in `dtype`
  at::Tensor fine;    // the rest
};
SplitTensor Split(const at::Tensor& x, at::ScalarType dtype);

// The gradient of log decays [B,S,H] from that of their sums [B,H,S]: the sum of those from a token
// on, zero for a reset.
at::Tensor LogDecayGradient(const at::Tensor& d_sums, const at::Tensor& log_decay);

}  // namespace mixerbench::kernels::softmax_attention
