// Titans' linear memory: gradient descent with momentum and forgetting, chunk by chunk.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "kernels/core.h"

namespace mixerbench::kernels {

// What the memory carries: itself and its momentum at the start of the chunk that the next token
// belongs to, and the tokens of it that were seen, U of them, fewer than a chunk. fp32, or fp64 for
// fp64 inputs. All may be undefined: zeros, and no tokens.
struct TitansState {
  at::Tensor memory = {};        // [B,H,K,V]
  at::Tensor momentum = {};      // [B,H,K,V]
  at::Tensor k = {};             // [B,U,H,K]
  at::Tensor v = {};             // [B,U,H,V]
  at::Tensor log_decay = {};     // [B,U,H]
  at::Tensor log_momentum = {};  // [B,U,H]
  at::Tensor step = {};          // [B,U,H]
};

// B batch, T tokens, H heads, K and V key and value sizes per head. q, k and v share one floating
// dtype; all tensors share one device. Any strides.
struct TitansArgs {
  at::Tensor q;                  // [B,T,H,K]
  at::Tensor k;                  // [B,T,H,K]
  at::Tensor v;                  // [B,T,H,V]
  at::Tensor step;               // [B,T,H] >= 0: theta
  at::Tensor log_decay = {};     // ln(1 - alpha) [B,T,H] <= 0; undefined: nothing is forgotten
  at::Tensor log_momentum = {};  // ln eta [B,T,H] <= 0; undefined: no momentum
  TitansState initial_state = {};
  // Tokens whose gradients are taken at the same memory: part of the model, not of its speed.
  std::int64_t mini_batch_size = 16;
  double scale = 0;  // multiplies q.k; 0 means K^-0.5
};

struct TitansResult {
  at::Tensor o;  // [B,T,H,V], dtype of v
  TitansState final_state;
  // Without gradients: |k_t M - v_t| at the memory of the chunk's start, [B,T,H], in the dtype of
  // the state.
  at::Tensor surprise;
};

// With M_0 the memory at the start of token t's chunk:
//   S_t = eta_t S_{t-1} - 2 theta_t k_t^T (k_t M_0 - v_t)
//   M_t = (1 - alpha_t) M_{t-1} + S_t,   o_t = scale q_t M_t
// Cost:   O(B T H K V) time.
// Errors: std::logic_error when shapes, dtypes or devices disagree.
// Source: arXiv 2501.00663 with linear memory.
TitansResult ReferenceTitans(const TitansArgs& args);

// The same chunk by chunk. Derivation in titans.md.
// Cost:   10 K V + 2 M (K + V) FLOPs per token and head forward, M the mini-batch size.
TitansResult ChunkTitans(const TitansArgs& args);

// What mixers call.
TitansResult Titans(const TitansArgs& args, ExecutionPath path);

}  // namespace mixerbench::kernels
