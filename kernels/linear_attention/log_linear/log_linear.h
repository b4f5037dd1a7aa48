// K9: log-linear attention, a scalar decay or a delta rule whose past is split into levels with
// weights of their own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "kernels/core.h"

namespace mixerbench::kernels {

// B batch, T tokens, H heads, K and V key and value sizes per head, L levels.
struct LogLinearArgs {
  at::Tensor q;               // [B,T,H,K]
  at::Tensor k;               // [B,T,H,K]
  at::Tensor v;               // [B,T,H,V]; q, k and v share one floating dtype
  at::Tensor level_weight;    // [B,T,H,L]: of each level, as the token reads it
  at::Tensor log_decay = {};  // [B,T,H] <= 0, fp32 or fp64; undefined: no decay
  // [B,T,H]: write strength of the delta rule, by which a token erases from every level what its
  // key recalls, and writes to its own; undefined: nothing is erased, the write strength is 1.
  at::Tensor beta = {};
  // Levels 1 to L as the first token finds them, [B,H,L,K,V]; undefined: zeros. Of those that its
  // position has no level for, nothing is read.
  at::Tensor initial_state = {};
  std::int64_t position = 0;  // of the first token; position + T <= 2^(L-1)
  double scale = 0;           // multiplies q.k; 0 means K^-0.5
  // Tokens per dense block of the fast path, rounded down to a power of two; changes speed, not
  // results.
  std::int64_t chunk_size = 64;
  bool wants_final_state = true;
};

struct LogLinearResult {
  at::Tensor o;                 // [B,T,H,V], dtype of v
  at::Tensor final_state = {};  // [B,H,L,K,V] of position + T, zeros where there is no level, fp32
                                // or, for fp64 inputs, fp64; undefined where it is not wanted
};

// Token i reads itself at level 0 and, at level l >= 1 if bit l-1 of its position is set, the
// tokens from p - 2^(l-1) to p - 1, where p is its position with the lower bits cleared:
//   o_i = scale sum_l level_weight_i^l (S_i^l)^T q_i,  S_i^l = sum_j exp(g_{j+1} + ... + g_i) k_j
//   v_j^T
// With beta, the token's own write is beta k v^T, and every S_i^l is first decayed, then multiplied
// by I - beta_i k_i k_i^T.
// One token at a time: levels merge as digits carry in a binary counter.
// Cost:   O(B T H K V L) time.
// Errors: std::logic_error when shapes, dtypes or devices disagree, or there are too few levels.
// Source: arXiv 2506.04761.
LogLinearResult ReferenceLogLinear(const LogLinearArgs& args);

// The same by dense blocks of chunk_size tokens and, for each level above, one product of all
// blocks at once. Derivation in log_linear.md.
LogLinearResult ChunkLogLinear(const LogLinearArgs& args);

// What mixers call.
LogLinearResult LogLinear(const LogLinearArgs& args, ExecutionPath path);

}  // namespace mixerbench::kernels
