// Linear attention with one decay per key channel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/core.h"
#include "kernels/linear_attention/recurrence.h"

namespace mixerbench::kernels {

// One token at a time, the definition:
//   S_t = diag(exp(g_t)) S_{t-1} + k_t v_t^T,   o_t = scale * S_t^T q_t,   g = log_decay [B,T,H,K]
// Shapes: RecurrenceArgs and RecurrenceResult; `beta` undefined.
// Cost:   O(B T H K V) time and, with gradients, memory.
// Errors: std::logic_error when shapes, dtypes or devices disagree.
// Source: arXiv 2312.06635.
RecurrenceResult ReferenceGla(const RecurrenceArgs& args);

// The same in chunks of at most args.chunk_size tokens, without a positive exponent anywhere.
// Derivation in gla.md.
// Cost: 4 K V + 2 C (K+V) FLOPs per token and head forward, C the chunk length.
RecurrenceResult ChunkGla(const RecurrenceArgs& args);

// What mixers call.
RecurrenceResult Gla(const RecurrenceArgs& args, ExecutionPath path);

}  // namespace mixerbench::kernels
