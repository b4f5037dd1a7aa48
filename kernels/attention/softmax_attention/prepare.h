// What the two paths of softmax attention share: checks, grouped heads, the draw of the dropout.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <ATen/core/Tensor.h>

#include "kernels/attention/softmax_attention/softmax_attention.h"

namespace mixerbench::kernels::softmax_attention {

struct Prepared {
  std::int64_t batch_size = 0;
  std::int64_t num_queries = 0;   // T, or R chosen ones
  std::int64_t num_keys = 0;      // S
  std::int64_t num_heads = 0;     // H
  std::int64_t num_kv_heads = 0;  // Hk
  std::int64_t head_k_dim = 0;
  std::int64_t head_v_dim = 0;
  at::ScalarType compute_dtype = at::kFloat;  // of scores and weights; fp64 for fp64 inputs
  double scale = 0;
};

// Throws std::logic_error when shapes, dtypes or devices disagree with SoftmaxAttentionArgs.
Prepared Prepare(const SoftmaxAttentionArgs& args);

// Tells (kernels/runtime/plan.h) how this call runs; `backward` only counts when gradients will be
// formed.
void RecordAttention(const SoftmaxAttentionArgs& args, std::string_view forward,
                     std::string_view backward, std::string_view reason = {});

// What `args` have beyond causal attention ("a window"), which ATen's fused attention does not
// take; empty: nothing.
std::string ExtraTerm(const SoftmaxAttentionArgs& args, const Prepared& sizes);

// Keys or values [B,S,Hk,D] for every query head: [B,S,H,D].
at::Tensor RepeatHeads(const at::Tensor& x, const Prepared& sizes);

// Where the queries stand, int64: [T], of chosen ones [B,R].
at::Tensor QueryPositions(const SoftmaxAttentionArgs& args, const Prepared& sizes);

// Which keys queries at `positions` [...,T,1] do not see, those at `keys` [N]: [...,T,N] bool.
at::Tensor HiddenKeys(const at::Tensor& positions, const at::Tensor& keys, std::int64_t window);

// Of x [B,S,H], a number for each key, those at the tokens of the queries: [B,T,H].
at::Tensor AtQueries(const at::Tensor& x, const SoftmaxAttentionArgs& args, const Prepared& sizes);

// The seed of one draw, an int64 [1] on the device of q: attention_dropout.h says what it decides.
at::Tensor DrawDropoutSeed(const SoftmaxAttentionArgs& args);

// What each attention weight is multiplied by: 0 with the probability of
// MakeDropoutRule(dropout_p), else one over the probability to be kept. [B,H,T,S]; undefined
// without dropout.
at::Tensor DropoutFactors(const SoftmaxAttentionArgs& args, const Prepared& sizes);

}  // namespace mixerbench::kernels::softmax_attention
