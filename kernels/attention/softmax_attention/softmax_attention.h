// K0: causal softmax attention over a growing cache of keys and values.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

#include "kernels/core.h"
#include "kernels/layout/scored_positions.h"
#include "kernels/runtime/seed_generator.h"

namespace mixerbench::kernels {

// T queries stand at the end of S >= T keys: query i sees the keys j <= S - T + i. H is a multiple
// of Hk; query head h reads key head floor(h Hk / H). One floating dtype, one device, any strides.
struct SoftmaxAttentionArgs {
  at::Tensor q;          // [B,T,H,K]
  at::Tensor k;          // [B,S,Hk,K]
  at::Tensor v;          // [B,S,Hk,V]
  double scale = 0;      // multiplies q.k; 0 means K^-0.5
  double dropout_p = 0;  // in [0,1): share of attention weights set to zero, the rest scaled up
  std::optional<SeedGenerator> generator = {};  // required when dropout_p > 0
  // Scored queries, of S tokens a sequence: q is [B,R,H,K], R = per_sequence, and query r of
  // sequence b is token rows[b R + r] - b S, which sees the keys up to it. Where that is none of
  // the sequence's tokens (padding), it stands at token 0. nullptr: T queries, as above.
  const ScoredPositions* scored = nullptr;

  // Query i sees the last `window` keys, its own among them; 0: all before it.
  std::int64_t window = 0;
  // What changes the weights beside q.k; undefined: nothing. Of dtype fp32, fp64 for fp64 inputs.
  at::Tensor log_decay = {};  // [B,S,H] <= 0: the score of (i,j) gets its sum over j+1..i
  at::Tensor slopes = {};     // [H], constants: the score of (i,j) loses slope (i - j) (ALiBi)
  at::Tensor sinks = {};      // [H]: one more score of every query, without value; not beside decay
};

// One query at a time, the definition: o_i = sum_j softmax_j(score_ij) v_j over the keys that it
// sees, score_ij = scale q_i.k_j and what `args` adds -> [B,T,H,V], of scored queries [B,R,H,V].
// Cost:   O(B T S H (K+V)) time, O(B S H) memory beyond the output without gradients.
// Errors: std::logic_error when shapes, dtypes or devices disagree.
// Source: arXiv 1706.03762; grouped heads 2305.13245.
at::Tensor ReferenceSoftmaxAttention(const SoftmaxAttentionArgs& args);

// The same with many queries at once: ATen's fused attention where it is deterministic and covers
// the case, else matrix products around a masked softmax in fp32 (fp64). softmax_attention.md says
// when.
at::Tensor ParallelSoftmaxAttention(const SoftmaxAttentionArgs& args);

// What mixers call.
at::Tensor SoftmaxAttention(const SoftmaxAttentionArgs& args, ExecutionPath path);

}  // namespace mixerbench::kernels
