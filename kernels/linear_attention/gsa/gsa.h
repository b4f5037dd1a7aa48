// K6: a fixed number of slots of keys and values, written by gates and read by a softmax over them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "kernels/core.h"
#include "kernels/runtime/device_plan.h"

namespace mixerbench::kernels {

// B batch, T tokens, H heads, M slots, K and V key and value sizes per head. q, k and v share one
// floating dtype; all tensors share one device. Any strides.
struct GsaArgs {
  at::Tensor q = {};             // [B,T,H,K]
  at::Tensor k = {};             // [B,T,H,K]
  at::Tensor v = {};             // [B,T,H,V]
  at::Tensor slot_writes = {};   // s [B,T,H,M], fp32 or fp64: how much of k and v goes to each slot
  at::Tensor log_decay = {};     // [B,T,H,M] <= 0, fp32 or fp64; undefined: no decay
  at::Tensor initial_keys = {};  // [B,H,K,M], fp32 or fp64; undefined: zeros
  at::Tensor initial_values = {};  // [B,H,M,V]
  double scale = 0;                // multiplies the logits of the softmax; 0 means K^-0.5
  std::int64_t chunk_size = 64;    // tokens per chunk of the fast path; changes speed, not results
};

struct GsaResult {
  at::Tensor o;             // [B,T,H,V], dtype of v
  at::Tensor final_keys;    // [B,H,K,M], fp32, or fp64 for fp64 inputs
  at::Tensor final_values;  // [B,H,M,V]
  at::Tensor slot_probs;    // p [B,T,H,M], fp32 or fp64, without gradient: to look at
};

// One token at a time, the definition:
//   Sk_t = Sk_{t-1} diag(exp(g_t)) + k_t s_t^T    p_t = softmax_M(scale * Sk_t^T q_t)
//   Sv_t = diag(exp(g_t)) Sv_{t-1} + s_t v_t^T    o_t = Sv_t^T p_t,   g = log_decay
// Cost:   O(B T H M (K+V)) time and, with gradients, memory.
// Errors: std::logic_error when shapes, dtypes or devices disagree.
// Source: arXiv 2409.07146.
GsaResult ReferenceGsa(const GsaArgs& args);

// The same in chunks, without a positive exponent anywhere, with its own backward pass. Derivation
// in gsa.md.
// Cost: 4 M (K+V) + 2 C (K+2M+V) FLOPs per token and head forward, C the chunk length.
GsaResult ChunkGsa(const GsaArgs& args);

// What mixers call. On a CUDA device two recurrences of GLA, where their device code takes them.
GsaResult Gsa(const GsaArgs& args, ExecutionPath path);

namespace gsa {

struct Prepared {
  std::int64_t batch_size = 0;
  std::int64_t seq_len = 0;
  std::int64_t num_heads = 0;
  std::int64_t num_slots = 0;
  std::int64_t head_k_dim = 0;
  std::int64_t head_v_dim = 0;
  at::ScalarType compute_dtype = at::kFloat;  // fp64 for fp64 inputs
  double scale = 0;
};

// Throws std::logic_error when a shape, dtype or device disagrees with the comments of GsaArgs.
Prepared Prepare(const GsaArgs& args);

// What device code there is.
const std::vector<DevicePlan>& DevicePlans();

// The states before the first token in the compute dtype, zeros where there are none.
at::Tensor InitialKeys(const GsaArgs& args, const Prepared& sizes);    // [B,H,K,M]
at::Tensor InitialValues(const GsaArgs& args, const Prepared& sizes);  // [B,H,M,V]

}  // namespace gsa
}  // namespace mixerbench::kernels
