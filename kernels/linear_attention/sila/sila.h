// SILA: a delta rule whose gates depend on what the memory recalls for the current key.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "kernels/core.h"

namespace mixerbench::kernels {

// B batch, T tokens, H heads, K and V key and value sizes per head. q, k and v share one floating
// dtype, the others have any; all tensors share one device. Any strides.
struct SilaArgs {
  at::Tensor q;             // [B,T,H,K]
  at::Tensor k;             // [B,T,H,K], of norm at most 1
  at::Tensor v;             // [B,T,H,V]
  at::Tensor write_logit;   // [B,T,H]: what the token says about the gates
  at::Tensor forget_logit;  // [B,T,H]
  // What the recalled value says about them: [H,V] of its own head, or [H,H,V] of every head (gate
  // of the first head, value of the second). Both or none; undefined: zeros.
  at::Tensor write_memory = {};
  at::Tensor forget_memory = {};
  at::Tensor initial_state = {};      // [B,H,K,V], fp32 or fp64; undefined: zeros
  at::Tensor forced_write_gate = {};  // [B,T,H]: used in place of beta where it is not NaN
  bool decayed_erase = false;         // erase what is recalled after the decay
  bool wants_gates = false;
  double scale = 0;              // multiplies q.k; 0 means K^-0.5
  std::int64_t chunk_size = 32;  // tokens per chunk of the fast path; changes speed, not results
};

struct SilaResult {
  at::Tensor o;            // [B,T,H,V], dtype of v
  at::Tensor final_state;  // [B,H,K,V], fp32, or fp64 for fp64 inputs
  // Of wants_gates, in the dtype of the state and without gradients.
  at::Tensor write_gate = {};  // beta [B,T,H]
  at::Tensor log_decay = {};   // ln gamma [B,T,H]
  at::Tensor recalled = {};    // p [B,T,H,V]
};

// One token at a time, the definition; reads and gates see the state before the token:
//   p_t = S_{t-1}^T k_t
//   beta_t  = sigmoid(write_logit_t + <write_memory, p_t>)
//   gamma_t = phi(forget_logit_t + <forget_memory, p_t>),  phi(z) = sech z for z < 0, else 1
//   o_t = scale * S_{t-1}^T q_t
//   S_t = gamma_t S_{t-1} + beta_t k_t (v_t - p_t)^T     (gamma_t p_t with decayed_erase)
// Cost:   O(B T H K V) time and, with gradients, memory.
// Errors: std::logic_error when shapes, dtypes or devices disagree.
SilaResult ReferenceSila(const SilaArgs& args);

// The same with the state substituted inside chunks: a loop over tokens is left that touches
// vectors of V alone, and its reverse. Derivation in sila.md.
// Cost:   6 K V + C (4 K + 3 V) FLOPs per token and head forward, C the chunk length; T steps.
SilaResult ChunkSila(const SilaArgs& args);

// What mixers call.
SilaResult Sila(const SilaArgs& args, ExecutionPath path);

}  // namespace mixerbench::kernels
