// The delta rule, with or without a scalar decay.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/core.h"
#include "kernels/linear_attention/recurrence.h"

namespace mixerbench::kernels {

// One token at a time, the definition. Decay, then erase and write, then read:
//   S = exp(g_t) S_{t-1},  y_t = beta_t (v_t - S^T k_t),  S_t = S + k_t y_t^T,
//   o_t = scale * S_t^T q_t,   g = log_decay [B,T,H], beta [B,T,H]
// Shapes: RecurrenceArgs and RecurrenceResult. Keys need norm at most 1 (beta <= 2), otherwise the
// recurrence itself grows without bound.
// Cost:   O(B T H K V) time and, with gradients, memory.
// Errors: std::logic_error when shapes, dtypes or devices disagree.
// Source: arXiv 2406.06484 (no decay), 2412.06464 (gated).
RecurrenceResult ReferenceDeltaRule(const RecurrenceArgs& args);

// The same in chunks of at most args.chunk_size tokens (UT transform); the triangular system is
// solved in fp32 or fp64. Derivation in delta_rule.md.
// Cost: 6 K V + C (6 K + 4 V) + C^2/3 FLOPs per token and head forward, C the chunk length.
RecurrenceResult ChunkDeltaRule(const RecurrenceArgs& args);

// What mixers call.
RecurrenceResult DeltaRule(const RecurrenceArgs& args, ExecutionPath path);

}  // namespace mixerbench::kernels
