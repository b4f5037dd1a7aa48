// The norm of what each head reads, times its gate.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/norm/output_norm_cuda.h"
#include "kernels/runtime/execution_path.h"

namespace mixerbench::kernels {

struct OutputNormArgs {
  at::Tensor x;          // [B,T,H,V]
  at::Tensor gate = {};  // [B,T,H,V] like x; undefined without activation
  at::Tensor weight;     // [V]
  double eps = 1e-5;
  GateActivation activation = GateActivation::kNone;
  bool gate_before_norm = false;
};

// y = weight n(x) a(gate), or weight n(x a(gate)) with the gate before the norm,
// n(x) = x / (mean(x^2) + eps)^1/2 -> [B,T,H,V], dtype of x, dense. The fast path on a
// GPU takes a gate of the dtype of x, float32 weights and V a multiple of 8 up to 512, and is the
// reference otherwise; its backward pass computes the norm again.
// Cost: reads x and the gate, writes y once; backward reads three tensors and writes two.
at::Tensor OutputNorm(const OutputNormArgs& args, ExecutionPath path = ExecutionPath::kFast);

// The same by ATen operations.
at::Tensor ReferenceOutputNorm(const OutputNormArgs& args);

}  // namespace mixerbench::kernels
