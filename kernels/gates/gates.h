// Gates of the mixers from their logits, and the gated linear unit.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/runtime/execution_path.h"

namespace mixerbench::kernels {

// max(log sigmoid(z) / temperature, floor) of logits z [..., C] in any floating dtype -> [..., C]
// in float32 (float64 for float64). floor 0: none.
at::Tensor LogSigmoidDecay(const at::Tensor& z, double temperature, double floor = 0,
                           ExecutionPath path = ExecutionPath::kFast);

struct DeltaGatesArgs {
  at::Tensor z;             // [..., H], or [..., 2 H] with a decay: write strength, then decay
  double beta_scale = 1;    // 2 allows negative eigenvalues
  at::Tensor A_log = {};    // [H]; undefined: no decay
  at::Tensor dt_bias = {};  // [H]
};
struct DeltaGates {
  at::Tensor beta;       // [..., H], float32 at least
  at::Tensor log_decay;  // [..., H], undefined without decay
};

// beta = beta_scale sigmoid(z_beta); log_decay = -exp(A_log) softplus(z_decay + dt_bias).
DeltaGates ComputeDeltaGates(const DeltaGatesArgs& args, ExecutionPath path = ExecutionPath::kFast);

// silu(a) * b for [a, b] = x [..., 2 C] -> [..., C], dtype of x.
at::Tensor Swiglu(const at::Tensor& x, ExecutionPath path = ExecutionPath::kFast);

}  // namespace mixerbench::kernels
