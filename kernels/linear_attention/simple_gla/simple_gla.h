// Linear attention with a scalar decay (none: plain linear attention).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/core.h"
#include "kernels/linear_attention/recurrence.h"

namespace mixerbench::kernels {

// One token at a time, the definition:
//   S_t = exp(g_t) S_{t-1} + k_t v_t^T,   o_t = scale * S_t^T q_t,   g = log_decay [B,T,H]
// Shapes: RecurrenceArgs and RecurrenceResult; `beta` undefined.
// Cost:   O(B T H K V) time and, with gradients, memory.
// Errors: std::logic_error when shapes, dtypes or devices disagree.
// Source: arXiv 2006.16236 (no decay), 2307.08621 (constant), 2312.06635 section 3
// (data-dependent).
RecurrenceResult ReferenceSimpleGla(const RecurrenceArgs& args);

// The same in chunks of at most args.chunk_size tokens: dense matrix products inside a chunk, one
// multiply-add of the state between chunks. Derivation in simple_gla.md.
// Cost: 4 K V + 2 C (K+V) FLOPs per token and head forward, C the chunk length.
RecurrenceResult ChunkSimpleGla(const RecurrenceArgs& args);

// What mixers call.
RecurrenceResult SimpleGla(const RecurrenceArgs& args, ExecutionPath path);

}  // namespace mixerbench::kernels
