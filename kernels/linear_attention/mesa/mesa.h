// K8: MesaNet, least squares over the past, solved for every token.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "kernels/core.h"

namespace mixerbench::kernels {

// B batch, T tokens, H heads, K and V key and value sizes per head. q, k and v share one floating
// dtype; all tensors share one device. Any strides.
struct MesaArgs {
  at::Tensor q;                   // [B,T,H,K]
  at::Tensor k;                   // [B,T,H,K]
  at::Tensor v;                   // [B,T,H,V]
  at::Tensor beta;                // [B,T,H] >= 0
  at::Tensor ridge;               // [H,K] > 0: lambda
  at::Tensor log_decay = {};      // [B,T,H] <= 0, fp32 or fp64; undefined: no decay
  at::Tensor initial_gram = {};   // [B,H,K,K], symmetric, no negative eigenvalue; undefined: zeros
  at::Tensor initial_state = {};  // [B,H,K,V]; undefined: zeros
  // Of conjugate gradients; with K of them the solution is exact but for rounding. Changes results.
  std::int64_t num_iterations = 30;
  bool wants_residual = false;
  double scale = 0;              // multiplies q; 0 means K^-0.5
  std::int64_t chunk_size = 64;  // tokens per chunk of the fast path; changes speed, not results
};

struct MesaResult {
  at::Tensor o;            // [B,T,H,V], dtype of v
  at::Tensor final_gram;   // [B,H,K,K], fp32, or fp64 for fp64 inputs
  at::Tensor final_state;  // [B,H,K,V], the same
  // Of wants_residual, without gradients: |(H + lambda) x - q| / |q|, [B,T,H].
  at::Tensor residual = {};
};

// One token at a time:
//   H_t = exp(g_t) H_{t-1} + beta_t k_t k_t^T,  G_t = exp(g_t) G_{t-1} + beta_t k_t v_t^T
//   x_t = (H_t + diag lambda)^-1 scale q_t,     o_t = G_t^T x_t
// x_t by conjugate gradients from zero; its gradient is that of the exact solution, so it is as
// good as the solution.
// Cost:   O(B T H K (num_iterations K + V)) time.
// Errors: std::logic_error when shapes, dtypes or devices disagree.
// Source: arXiv 2506.05233.
MesaResult ReferenceMesa(const MesaArgs& args);

// The same in chunks: all tokens iterate at once. Derivation in mesa.md.
// Cost:   num_iterations (2 K^2 + 4 C K) + 4 K^2 + 4 K V FLOPs per token and head forward.
MesaResult ChunkMesa(const MesaArgs& args);

// What mixers call.
MesaResult Mesa(const MesaArgs& args, ExecutionPath path);

}  // namespace mixerbench::kernels
