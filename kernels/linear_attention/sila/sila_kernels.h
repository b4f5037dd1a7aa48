// The device code of SILA: raw pointers, sizes and a stream in, the CUDA error code of the launch
// out. No torch. The maths is in sila.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/device/element.h"
#include "kernels/device/sequence.h"
#include "kernels/linear_attention/sila/sila_plan.h"

namespace mixerbench::kernels::sila {

// Tensors [B,T,H,D] have adjacent channels and need no alignment; what has a dtype of its own is
// fp32. Tensors given by a pointer alone are dense.
struct TokenScanProblem {
  std::int64_t batch_size = 0;
  std::int64_t seq_len = 0;
  std::int64_t num_heads = 0;
  int head_k_dim = 0;
  int head_v_dim = 0;
  float scale = 1;
  bool decayed_erase = false;
  Element element = Element::kFloat;  // of q, k, v, o and their gradients
  device::Sequence q = {}, k = {};    // [B,T,H,K]
  device::Sequence v = {};            // [B,T,H,V]
  // [B,T,H] in fp32. Write gates are forced where they are not NaN; data null: nowhere.
  device::Sequence write_logit = {}, forget_logit = {}, forced_write_gate = {};
  // [H,V]; null: zeros.
  const float* write_memory = nullptr;
  const float* forget_memory = nullptr;
  const float* initial_state = nullptr;  // [B,H,K,V]; null: zeros

  // What the forward pass keeps; null: not wanted. Read only in the backward pass.
  float* states = nullptr;  // before every chunk, NumStates() elements in the order of the lanes
  device::Sequence recalled = {};           // p, [B,T,H,V] in fp32
  device::Sequence whole_write_logit = {};  // memory included, [B,T,H] in fp32
  device::Sequence whole_forget_logit = {};

  // Of the forward pass.
  device::Sequence o = {};       // [B,T,H,V]
  float* final_state = nullptr;  // [B,H,K,V]

  // Of the backward pass.
  device::Sequence d_o = {};                                 // [B,T,H,V]
  const float* d_final_state = nullptr;                      // [B,H,K,V]; null: zeros
  device::Sequence d_q = {}, d_k = {}, d_v = {};             // as q, k, v
  device::Sequence d_write_logit = {}, d_forget_logit = {};  // [B,T,H] in fp32
  // Of each sequence, [B,H,V]; null: not wanted.
  float* d_write_memory = nullptr;
  float* d_forget_memory = nullptr;
  float* d_initial_state = nullptr;  // [B,H,K,V]; null: not wanted

  constexpr int num_warps() const { return NumWarps(head_k_dim, head_v_dim); }
  constexpr std::int64_t NumHeads() const { return batch_size * num_heads; }
  constexpr std::int64_t NumStates() const {
    return NumHeads() * NumChunks(seq_len) * num_warps() * kStatesPerWarp;
  }
};

int TokenScanForward(const TokenScanProblem& problem, CUstream_st* stream);
int TokenScanBackward(const TokenScanProblem& problem, CUstream_st* stream);

}  // namespace mixerbench::kernels::sila
