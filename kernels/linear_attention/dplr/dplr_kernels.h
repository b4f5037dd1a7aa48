// The device code of DPLR: raw pointers, sizes and a stream in, the CUDA error code of the launch
// out. No torch. The maths is in dplr.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/device/element.h"
#include "kernels/device/sequence.h"
#include "kernels/linear_attention/dplr/dplr_plan.h"

namespace mixerbench::kernels::dplr {

// A tensor [B,T,H,D] whose channels are adjacent. Rows need no alignment.
struct TokenRows {
  device::Sequence rows = {};  // data null: absent
  Element element = Element::kFloat;
  // Four neighbouring channels are read and written at once: D and the strides are multiples of
  // four, and the first element is aligned to four.
  bool in_fours = false;
};

enum class DecayKind { kNone, kOfHead, kOfChannel };

struct TokenScanProblem {
  std::int64_t batch_size = 0;
  std::int64_t seq_len = 0;
  std::int64_t num_heads = 0;
  std::int64_t head_k_dim = 0;
  std::int64_t head_v_dim = 0;
  float scale = 1;
  DecayKind decay_kind = DecayKind::kNone;
  TokenRows q = {}, k = {}, a = {}, b = {};  // [B,T,H,K]
  TokenRows v = {};                          // [B,T,H,V]
  TokenRows log_decay = {};                  // [B,T,H,K], or [B,T,H,1]; fp32
  TokenRows beta = {};                       // [B,T,H,1]: multiplies a and k; absent: 1
  bool recalls_decayed = false;              // b decays before it recalls
  const float* initial_state = nullptr;      // [B,H,K,V]; null: zeros
  // What the forward pass keeps for the backward pass; null: not wanted. In the latter read only.
  float* states = nullptr;  // before every chunk, NumStates() elements in the order of the lanes
  TokenRows recalled = {};  // b^T S before the token, [B,T,H,V], fp32

  // Of the forward pass.
  TokenRows o = {};              // [B,T,H,V]
  float* final_state = nullptr;  // [B,H,K,V]

  // Of the backward pass.
  TokenRows d_o = {};                                // [B,T,H,V]
  const float* d_final_state = nullptr;              // [B,H,K,V]; null: zeros
  TokenRows d_v = {};                                // [B,T,H,V]
  TokenRows d_q = {}, d_k = {}, d_a = {}, d_b = {};  // [B,T,H,K]
  TokenRows d_log_decay = {};                        // [B,T,H,K] of every kind but kNone
  TokenRows d_beta = {};                             // [B,T,H,1], fp32; absent with beta
  float* d_initial_state = nullptr;                  // [B,H,K,V]; null: not wanted
  // With several CTAs a head these gradients but d_v are of every CTA, [num_blocks,B,T,H,...], to
  // be added up: so many elements from one block to the next, and of d_beta.
  std::int64_t block_stride = 0;
  std::int64_t beta_block_stride = 0;

  constexpr ValueTiling tiling() const { return ValueTiling::Of(head_k_dim, head_v_dim); }
  constexpr std::int64_t NumCtas() const { return batch_size * num_heads * tiling().num_blocks; }
  constexpr std::int64_t NumStates() const {
    return NumCtas() * tiling().num_warps * NumChunks(seq_len) * kStatesPerWarp;
  }
};

int TokenScanForward(const TokenScanProblem& problem, CUstream_st* stream);
int TokenScanBackward(const TokenScanProblem& problem, CUstream_st* stream);

}  // namespace mixerbench::kernels::dplr
