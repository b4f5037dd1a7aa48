// The device code of softmax attention for scored queries: R of the T tokens of every sequence
// ask, all of them are keys. Maths and the form of the kernels: softmax_attention.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/attention/softmax_attention/softmax_attention_kernels.h"

namespace mixerbench::kernels::softmax_attention {

// As AttentionProblem, with q, o, d_o and d_q [B,R,H,D] and log_denominators [B,H,R]; o_products
// are not used.
struct ScoredProblem : AttentionProblem {
  std::int64_t num_queries = 0;  // R
  // [B,R]: query r of sequence b is token rows[b,r] - b T of it; 0 when that is none of its tokens.
  const std::int64_t* rows = nullptr;
};

// Start on `stream` of the current device and return the CUDA error code of the launch. Sums in
// fp32 and in a fixed order, no atomics. Backward writes all T tokens of d_k and d_v; it takes up
// to MaxScoredPositions (softmax_attention_plan.h) queries, cudaErrorInvalidValue for more.
int ScoredPositionsForward(const ScoredProblem& problem, CUstream_st* stream);
int ScoredPositionsBackward(const ScoredProblem& problem, CUstream_st* stream);

}  // namespace mixerbench::kernels::softmax_attention
