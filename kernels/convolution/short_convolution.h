// Short causal depthwise convolution with what usually follows it: SiLU, and the L2 norm of the
// heads of queries and keys.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "kernels/runtime/execution_path.h"

namespace mixerbench::kernels {

struct ShortConvolutionArgs {
  at::Tensor x;          // [B,T,C], any floating dtype
  at::Tensor weight;     // [C,W], the last tap meets the current token
  at::Tensor bias = {};  // [C]; undefined: none
  bool silu = false;
  // The first norm_channels channels are divided by (sum x^2 + norm_eps)^1/2 over heads of
  // norm_dim.
  std::int64_t norm_channels = 0;
  std::int64_t norm_dim = 0;
  double norm_eps = 1e-6;
};

// z_t = sum_m weight[:,m] x_{t-W+1+m} + bias, zeros before the first token; y = z, silu(z), and
// that normalised -> [B,T,C], dtype of x. The fast path on a GPU takes W of 2 to 4, float32
// weights, C a multiple of 8, heads of a power of two from 8 to 128, and is the reference
// otherwise; its backward pass computes the forward values again from x. Cost: reads and writes x
// once; backward reads x and d_y, writes d_x.
at::Tensor ShortConvolution(const ShortConvolutionArgs& args,
                            ExecutionPath path = ExecutionPath::kFast);

// The same by ATen operations.
at::Tensor ReferenceShortConvolution(const ShortConvolutionArgs& args);

}  // namespace mixerbench::kernels
