// The device code of causal softmax attention: nothing of size [T,S] in memory. Maths and the form
// of the kernels: softmax_attention.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/attention/softmax_attention/attention_dropout.h"
#include "kernels/device/sequence.h"

namespace mixerbench::kernels::softmax_attention {

// bf16 tensors [B,T,H,D] with as many keys as queries and one head size.
struct AttentionProblem {
  std::int64_t batch_size = 0;
  std::int64_t seq_len = 0;
  std::int64_t num_heads = 0;
  std::int64_t head_dim = 0;  // 16, 32, 64 or 128
  float scale = 1;            // multiplies q.k
  device::Sequence q, k, v, o;
  float* log_denominators = nullptr;  // [B,H,T], lse of softmax_attention.md in base two
  DropoutRule dropout;
  const std::int64_t* dropout_seed = nullptr;  // one, read only with dropout
  // Query i sees the keys i - window < j <= i; as many as there are tokens: all before it.
  int window = 0;
  // c of softmax_attention.md in base two, as a float and the rest: [B,H,T,2]. nullptr: no decay.
  const float* decay_sums = nullptr;

  // Backward only.
  device::Sequence d_o, d_q, d_k, d_v;
  float* o_products = nullptr;    // [B,H,T], scratch for delta / dropout.scale; tiled only
  float* d_decay_sums = nullptr;  // [B,H,T], of c as query and as key; nullptr: not wanted

  bool has_terms() const { return decay_sums != nullptr || window < seq_len; }
};

// Start on `stream` of the current device and return the CUDA error code of the launch. Sums in
// fp32 and in a fixed order, no atomics. Tiled: any number of tokens. Whole: as many as
// PlanAttention (softmax_attention_plan.h) gives it, no decay and no window; cudaErrorInvalidValue
// for others.
int TiledForward(const AttentionProblem& problem, CUstream_st* stream);
int TiledBackward(const AttentionProblem& problem, CUstream_st* stream);
int WholeBackward(const AttentionProblem& problem, CUstream_st* stream);

// Fills a mask in device memory, a thread for each group.
int FillDropoutMask(const DropoutMask& mask, CUstream_st* stream);

}  // namespace mixerbench::kernels::softmax_attention
