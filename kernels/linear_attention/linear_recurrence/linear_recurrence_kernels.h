// The device code of the linear recurrence: raw pointers, sizes and a stream in, the CUDA error
// code of the launch out. No torch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/linear_attention/linear_recurrence/linear_recurrence_plan.h"

struct CUstream_st;

namespace mixerbench::kernels::linear_recurrence {

enum class DecayKind {
  kConstant,  // [C] in fp64
  kFloat,     // [B,T,C] in fp32
  kDouble,    // [B,T,C] in fp64
};

// Dense tensors. "Numbers" are fp32, or pairs of fp32 when is_complex; log decays are then pairs
// too. N = chunks of a sequence.
struct RecurrenceProblem {
  std::int64_t batch_size = 0;
  std::int64_t seq_len = 0;
  std::int64_t num_channels = 0;
  bool is_complex = false;
  DecayKind decay_kind = DecayKind::kConstant;
  const void* log_decay = nullptr;

  // Forward: h_t = lambda_t h_{t-1} + x_t from `entering`. Backward, from the last token on:
  // h_t = x_t + r_{t+1}, r_t = conj(lambda_t) h_t, with the gradients of h in x; r comes out where
  // the forward pass has h_{t-1} go in.
  bool is_backward = false;
  const void* x = nullptr;  // numbers [B,T,C]
  const void* entering =
      nullptr;        // numbers [B,C], forward: the state before the first token; null: zeros
  void* h = nullptr;  // numbers [B,T,C]

  // Of each chunk, numbers [B,N,C]: what it makes of a state of zeros, the product of its decays,
  // the state that enters it.
  void* sums = nullptr;
  void* products = nullptr;
  void* states = nullptr;

  // Of the backward pass.
  const void* forward_h = nullptr;      // numbers [B,T,C]
  const void* initial_state = nullptr;  // numbers [B,C]; null: zeros
  void* d_initial_state = nullptr;      // numbers [B,C]; null: not wanted
  // conj(h_{t-1}) r_t, numbers [B,T,C]; of a constant decay their sums over a chunk, [B,N,C]. Null:
  // not wanted.
  void* d_log_decay = nullptr;

  std::int64_t num_chunks() const { return NumChunks(seq_len); }
};

// Three kernels: the chunks from zeros, the states between them, the chunks from these states.
int RunRecurrence(const RecurrenceProblem& problem, CUstream_st* stream);

}  // namespace mixerbench::kernels::linear_recurrence
