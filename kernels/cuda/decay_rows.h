// Linear attention with decay for chosen rows: the outputs at R tokens of each sequence, from the
// scores of these rows and the keys before them, without a walk over states. Derivation in
// decay_rows.md. No torch, no CUDA.
//
//   o_r = s * sum over j <= p_r of (sum over d of q_rd k_jd e^{G_pd - G_jd}) v_j
//
// for row r at position p = p_r and G_t = g_0 + ... + g_t, g the log decays.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/sequence.h"

namespace mixerbench::kernels::cuda {

struct DecayRowsProblem {
  std::int64_t batch_size = 0;
  std::int64_t seq_len = 0;
  std::int64_t num_heads = 0;
  std::int64_t key_dim = 0;            // K
  std::int64_t value_dim = 0;          // V
  std::int64_t rows_per_sequence = 0;  // R
  // [B*R]: b T + p_r, rising inside a sequence. An entry that is not in sequence b or not after the
  // one before it is surplus: its o and d_q are zero, and its d_o has no effect.
  const std::int64_t* rows = nullptr;
  float scale = 1;          // positive
  Sequence q = {};          // [B,R,H,K] bf16
  Sequence k = {};          // [B,T,H,K] bf16
  Sequence v = {};          // [B,T,H,V] bf16
  Sequence log_decay = {};  // [B,T,H,K] fp32
  Sequence o = {};          // [B,R,H,V] bf16; of the forward pass

  // Of the backward pass: d_o is given, the others have shape and dtype of what they belong to.
  Sequence d_o = {};
  Sequence d_q = {};
  Sequence d_k = {};
  Sequence d_v = {};
  Sequence d_log_decay = {};
};

// Whether there is device code for these sizes (tensors are not looked at): K of 16, 32 or 64, V of
// K or 2 K, and sequences short enough for the shared memory of one block of threads, where a head
// lies as a whole: T up to 512 for K = 32 and V = 64.
bool HasDecayRowsKernel(const DecayRowsProblem& problem, const DeviceLimits& limits);

// Whether it is also faster than walks over all tokens and a gather: a quarter of the tokens at
// most (decay_rows.md).
bool PrefersDecayRows(const DecayRowsProblem& problem, const DeviceLimits& limits);

// Starts a kernel on `stream` of the current device; returns the CUDA error code of the launch.
using DecayRowsFunction = int (*)(const DecayRowsProblem& problem, CUstream_st* stream);

}  // namespace mixerbench::kernels::cuda
