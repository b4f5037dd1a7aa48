// K2k: linear attention with one decay per key channel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/core.h"
#include "kernels/recurrence.h"

namespace mixerbench::kernels {

// One token at a time, the definition:
//   S_t = diag(exp(g_t)) S_{t-1} + k_t v_t^T,   o_t = scale * S_t^T q_t,   g = log_decay [B,T,H,K]
// Shapes: RecurrenceArgs and RecurrenceResult; `beta` undefined.
// Cost:   O(B T H K V) time and, with gradients, memory.
// Errors: std::logic_error when shapes, dtypes or devices disagree.
// Source: arXiv 2312.06635.
RecurrenceResult ReferenceVectorDecay(const RecurrenceArgs& args);

// The same in chunks of at most args.chunk_size tokens, without a positive exponent anywhere.
// Derivation in vector_decay.md.
// Cost: 4 K V + 2 C (K+V) FLOPs per token and head forward, C the chunk length.
RecurrenceResult ChunkVectorDecay(const RecurrenceArgs& args);

// What mixers call. Takes chosen rows.
RecurrenceResult VectorDecay(const RecurrenceArgs& args, ExecutionPath path);

namespace vector_decay {

// Whether to ask for R chosen rows of each sequence (0: rows in no order) is better than to gather
// them from all outputs, for q, k and v of the dtype and device of x [B,T,D]: on a GPU where there
// is device code for it, and on the CPU.
bool PrefersRows(const at::Tensor& x, std::int64_t rows_per_sequence, std::int64_t head_k_dim,
                 std::int64_t head_v_dim);

}  // namespace vector_decay

}  // namespace mixerbench::kernels
