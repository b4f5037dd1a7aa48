// The norm of what each head reads, then a linear layer of all heads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/core.h"
#include "kernels/fused/linear.h"

namespace mixerbench::kernels::fused {

struct NormLinearArgs {
  at::Tensor x;            // [B,T,H,V]
  at::Tensor norm_weight;  // [V]
  double eps = 1e-5;
  at::Tensor weight;  // [out,H V]
};

// Linear(OutputNorm(x), weight) without a gate and without a bias (linear.h, output_norm.h)
// -> [B,T,out], dtype of x. Runs these two one after the other, which is also the reference, but
// for bf16 inputs of the sizes of NormLinearTakes with float32 weights, on a GPU that has the
// device functions: there normed values are not stored, the backward pass forms them again.
// Cost there: reads x, writes y once; backward reads x and the gradient of y, writes that of x.
// Errors: std::logic_error when shapes disagree.
at::Tensor NormLinear(const NormLinearArgs& args, ExecutionPath path = ExecutionPath::kFast,
                      const NarrowParameters& narrow = {});

}  // namespace mixerbench::kernels::fused
