// The linear systems of MesaNet.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include <ATen/core/Tensor.h>

#include "kernels/linear_attention/mesa/mesa.h"
#include "kernels/linear_attention/recurrence.h"

namespace mixerbench::kernels::mesa {

PreparedRecurrence PrepareMesa(const MesaArgs& args);

// Solves A x = b for all rows [...,K] at once by so many conjugate gradients from zero, in ATen's
// functions; `apply` multiplies rows with their A, symmetric and positive. Rows of zeros stay
// zeros.
at::Tensor ConjugateGradients(const std::function<at::Tensor(const at::Tensor&)>& apply,
                              const at::Tensor& b, std::int64_t num_iterations);

// What a token's A is made of, chunk by chunk: A_i p = e^{b_i} H p + sum_j pairs_ij <k_j, p> k_j
// + lambda p.
struct MesaSystem {
  at::Tensor k;           // [M,C,K]
  at::Tensor pairs;       // e^{b_i - b_j} beta_j for j <= i, else 0, [M,C,C]
  at::Tensor from_start;  // e^{b_i}, [M,C,1]
  at::Tensor entering;    // H before the chunk, [M,K,K]
  at::Tensor ridge;       // lambda [M,1,K]
  // What pairs and from_start are made of, for device code, which takes a token after the other.
  // Without gradients: those of pairs and from_start are theirs.
  at::Tensor log_decay;  // [M,C]
  at::Tensor beta;       // [M,C]

  at::Tensor Apply(const at::Tensor& p) const;  // [M,C,K]
};

// x of A x = q [M,C,K], with the gradient of the exact solution. Records the plan.
at::Tensor Solve(const MesaSystem& system, const at::Tensor& q, std::int64_t num_iterations);

}  // namespace mixerbench::kernels::mesa
