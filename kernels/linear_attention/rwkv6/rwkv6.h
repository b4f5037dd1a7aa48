// K2x: one decay per key channel, read before the decay and the write, with a bonus for the token
// itself.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/core.h"
#include "kernels/linear_attention/recurrence.h"

namespace mixerbench::kernels {

// One token at a time, the definition:
//   o_t = scale * (S_{t-1} + diag(u) k_t v_t^T)^T q_t,   S_t = diag(exp(g_t)) S_{t-1} + k_t v_t^T
// g = args.log_decay [B,T,H,K], u = bonus [H,K] in fp32 or fp64; undefined: zeros.
// Shapes: RecurrenceArgs and RecurrenceResult; `beta` and `rows` undefined.
// Cost:   O(B T H K V) time and, with gradients, memory.
// Errors: std::logic_error when shapes, dtypes or devices disagree.
// Source: arXiv 2404.05892.
RecurrenceResult ReferenceRwkv6(const RecurrenceArgs& args, const at::Tensor& bonus);

// The same by Gla, whose token t-1 reads for token t (rwkv6.md), device code included.
// Cost: that of Gla, and one more pass over q, k, v and o.
RecurrenceResult ReadEarlierRwkv6(const RecurrenceArgs& args, const at::Tensor& bonus);

// What mixers call.
RecurrenceResult Rwkv6(const RecurrenceArgs& args, const at::Tensor& bonus, ExecutionPath path);

namespace rwkv6 {

// kernels::Prepare and the checks of `bonus`.
PreparedRecurrence Prepare(const RecurrenceArgs& args, const at::Tensor& bonus);

}  // namespace rwkv6
}  // namespace mixerbench::kernels
