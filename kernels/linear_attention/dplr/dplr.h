// K5: diagonal plus low rank, the transition that the delta rules and RWKV-7 have in common.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/core.h"
#include "kernels/linear_attention/recurrence.h"

namespace mixerbench::kernels {

struct DplrArgs {
  // q, k, v, initial_state, scale, chunk_size as for every core; `log_decay` [B,T,H,K] or, the same
  // for all key channels, [B,T,H]; `beta` [B,T,H], optional: multiplies what is erased and what is
  // written, that is a and k.
  RecurrenceArgs recurrence;
  at::Tensor a;  // [B,T,H,K], any floating dtype: along what is erased
  at::Tensor b;  // [B,T,H,K], any floating dtype: what is recalled, from the state before its decay
  bool recalls_decayed = false;  // from the state after it instead: b exp(g) takes the place of b
};

// One token at a time, the definition:
//   S_t = (diag(exp(g_t)) - a_t b_t^T) S_{t-1} + k_t v_t^T,   o_t = scale * S_t^T q_t,
//   g = log_decay <= 0
// with PlainFactors of its arguments.
// |a| |b| <= 2 or so is the caller's duty: beyond that the recurrence itself grows without bound.
// Cost:   O(B T H K V) time and, with gradients, memory.
// Errors: std::logic_error when shapes, dtypes or devices disagree.
// Source: arXiv 2503.14456 (RWKV-7).
RecurrenceResult ReferenceDplr(const DplrArgs& args);

// The same in chunks of a power of two, at most args.recurrence.chunk_size tokens, with a backward
// pass by hand. No exponent is positive and no two log decays are subtracted, so that every log
// decay is legal, -infinity among them. Derivation in dplr.md.
// Cost: 8 K V + C (10 K + 8 V) FLOPs per token and head forward, C the chunk length.
RecurrenceResult ChunkDplr(const DplrArgs& args);

// What mixers call.
RecurrenceResult Dplr(const DplrArgs& args, ExecutionPath path);

// The same arguments without beta, which is in a and v, and with what b recalls before the decay.
DplrArgs PlainFactors(const DplrArgs& args);

// What Dplr takes to be the delta rule with a decay per key channel (KDA): decay, then erase and
// write, then read,
//   S_t = (I - beta_t k_t k_t^T) diag(exp(g_t)) S_{t-1} + beta_t k_t v_t^T
// `args`: those of kernels/delta_rule, but log_decay [B,T,H,K] or [B,T,H]; beta [B,T,H] in [0,2].
DplrArgs DeltaRuleAsDplr(const RecurrenceArgs& args);

namespace dplr {

// Throws std::logic_error when a shape, dtype or device disagrees with the comments of DplrArgs.
PreparedRecurrence Prepare(const DplrArgs& args);

}  // namespace dplr

}  // namespace mixerbench::kernels
