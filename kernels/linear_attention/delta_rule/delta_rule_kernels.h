// The device code of the delta rule: raw pointers, sizes and a stream in, a CUDA error code out.
//
// A sequence is cut into N chunks of C tokens. The names are those of delta_rule.md:
//   DeltaRuleFactors         parallel over chunks: gates, X = (I + L)^-1 and A
//   DeltaRuleStates          one CTA scans the chunks of one (b, h) and some columns
//                            of V: O, and what the backward pass needs
//   DeltaRuleStateGradients  the same from the last chunk to the first: P, dS
//   DeltaRuleGradients       parallel over chunks: everything else
// or, in the fused plan, DeltaRuleFusedForward and DeltaRuleFusedBackward.
// Deterministic: no atomics, every sum has a fixed order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/device/sequence.h"

namespace mixerbench::kernels::delta_rule {

struct DeltaRuleSizes {
  std::int64_t batch_size = 0;
  std::int64_t seq_len = 0;
  std::int64_t num_heads = 0;
  std::int64_t head_k_dim = 0;
  std::int64_t head_v_dim = 0;
  float scale = 1;
  device::OperandPrecision precision = device::OperandPrecision::kBf16;
};

// C. States are saved once a chunk, and fp32 tiles are twice as large.
constexpr int ChunkSize(device::OperandPrecision precision) {
  return precision == device::OperandPrecision::kBf16 ? 64 : 32;
}
constexpr std::int64_t NumChunks(const DeltaRuleSizes& sizes) {
  return (sizes.seq_len + ChunkSize(sizes.precision) - 1) / ChunkSize(sizes.precision);
}

struct DeltaRulePlan {
  int scan_columns = 0;     // of V in a CTA that scans: 16, 32 or 64
  int gradient_stages = 0;  // tiles of DeltaRuleGradients in shared memory at once: 1 or 2
  bool uses_wgmma = false;  // by warpgroups, 64 columns of V whatever scan_columns says
  // The fused plan, one kernel each way that scans whole sequences: the multiprocessors to fill.
  // 0: the plan of four kernels.
  int fused_multiprocessors = 0;
};

// The widest scans that still give every multiprocessor one, since a scan is as slow with few
// columns as with many. nullopt: no device code for these sizes, or they do not fit the device's
// shared memory (delta_rule_plan.h).
std::optional<DeltaRulePlan> PlanDeltaRule(const DeltaRuleSizes& sizes,
                                           const device::DeviceLimits& limits);

// Between the kernels. E is bf16 or fp32 as the precision says.
struct DeltaRuleFactorData {
  float* gates = nullptr;  // [B,H,N,4,C]: b, e^b, w, beta
  void* x = nullptr;       // E [B,H,N,C,C]; 16x16 blocks above the diagonal are not written
  void* a = nullptr;       // the same
  bool has_decay = true;   // else b is zero for all tokens, which spares the fused plan work
};

// What the forward pass keeps for the backward pass.
struct DeltaRuleSaved {
  void* y = nullptr;       // E [B,T,H,V], contiguous
  void* states = nullptr;  // E [B,H,N,V,K]: the state that enters each chunk, transposed
};

// log_decay, beta: fp32 [B,T,H], contiguous; no log_decay (null) means zeros.
int DeltaRuleFactors(const DeltaRuleSizes& sizes, const device::Sequence& q,
                     const device::Sequence& k, const float* log_decay, const float* beta,
                     const DeltaRuleFactorData& factors, CUstream_st* stream);

// initial_state, final_state: fp32 [B,H,K,V], contiguous; no initial_state means zeros. `saved` may
// hold null pointers: nothing is kept.
int DeltaRuleStates(const DeltaRuleSizes& sizes, const DeltaRulePlan& plan,
                    const device::Sequence& q, const device::Sequence& k, const device::Sequence& v,
                    const DeltaRuleFactorData& factors, const float* initial_state,
                    const device::Sequence& o, float* final_state, const DeltaRuleSaved& saved,
                    CUstream_st* stream);

// d_final_state may be null: zeros. d_initial_state may be null: not wanted.
// p: E [B,T,H,V], contiguous. d_states: E [B,H,N,V,K], the gradient of the state that leaves each
// chunk, transposed.
int DeltaRuleStateGradients(const DeltaRuleSizes& sizes, const DeltaRulePlan& plan,
                            const device::Sequence& q, const device::Sequence& k,
                            const device::Sequence& d_o, const DeltaRuleFactorData& factors,
                            const float* d_final_state, void* p, void* d_states,
                            float* d_initial_state, CUstream_st* stream);

// The same two scans by warpgroups, which those above start with DeltaRulePlan::uses_wgmma:
// bf16, K 64 or 128, V a multiple of 64, sm_90a.
int DeltaRuleWideStates(const DeltaRuleSizes& sizes, const device::Sequence& q,
                        const device::Sequence& k, const device::Sequence& v,
                        const DeltaRuleFactorData& factors, const float* initial_state,
                        const device::Sequence& o, float* final_state, const DeltaRuleSaved& saved,
                        CUstream_st* stream);
int DeltaRuleWideStateGradients(const DeltaRuleSizes& sizes, const device::Sequence& q,
                                const device::Sequence& k, const device::Sequence& d_o,
                                const DeltaRuleFactorData& factors, const float* d_final_state,
                                void* p, void* d_states, float* d_initial_state,
                                CUstream_st* stream);

struct DeltaRuleGradientData {
  device::Sequence q, k, v;    // E
  float* beta = nullptr;       // [B,T,H]
  float* log_decay = nullptr;  // [B,T,H]; null: not wanted
};

int DeltaRuleGradients(const DeltaRuleSizes& sizes, const DeltaRulePlan& plan,
                       const device::Sequence& q, const device::Sequence& k,
                       const device::Sequence& v, const device::Sequence& d_o,
                       const DeltaRuleFactorData& factors, const DeltaRuleSaved& saved,
                       const void* p, const void* d_states, const DeltaRuleGradientData& gradients,
                       CUstream_st* stream);

// The fused plan: the first two kernels in one, and the last two. Null pointers in `factors`
// and `saved`: nothing is kept. final_state may be null: not wanted.
int DeltaRuleFusedForward(const DeltaRuleSizes& sizes, const DeltaRulePlan& plan,
                          const device::Sequence& q, const device::Sequence& k,
                          const device::Sequence& v, const float* log_decay, const float* beta,
                          const DeltaRuleFactorData& factors, const float* initial_state,
                          const device::Sequence& o, float* final_state,
                          const DeltaRuleSaved& saved, CUstream_st* stream);

int DeltaRuleFusedBackward(const DeltaRuleSizes& sizes, const DeltaRulePlan& plan,
                           const device::Sequence& q, const device::Sequence& k,
                           const device::Sequence& v, const device::Sequence& d_o,
                           const DeltaRuleFactorData& factors, const DeltaRuleSaved& saved,
                           const float* d_final_state, float* d_initial_state,
                           const DeltaRuleGradientData& gradients, CUstream_st* stream);

}  // namespace mixerbench::kernels::delta_rule
