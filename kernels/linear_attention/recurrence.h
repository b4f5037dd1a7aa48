// What the cores with a matrix state share: arguments, result, checks and the registry adapter.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include <ATen/core/Tensor.h>

#include "kernels/core.h"

namespace mixerbench::kernels {

// B batch, T tokens, H heads, K and V key and value sizes per head. q, k and v share one floating
// dtype; all tensors share one device. Any strides.
struct RecurrenceArgs {
  at::Tensor q;               // [B,T,H,K]
  at::Tensor k;               // [B,T,H,K]
  at::Tensor v;               // [B,T,H,V]
  at::Tensor log_decay = {};  // <= 0, fp32 or fp64; undefined: no decay. [B,T,H], and [B,T,H,K] for
                              // gla
  at::Tensor beta = {};  // [B,T,H] in [0,2], the write strength of delta_rule; undefined elsewhere
  at::Tensor initial_state = {};  // [B,H,K,V]; undefined: zeros
  double scale = 0;               // multiplies q.k; 0 means K^-0.5

  std::int64_t chunk_size = 64;  // tokens per chunk of the fast path; changes speed, not results

  // Without it a core may leave the final state out, and with it the time to write it.
  bool wants_final_state = true;
};

struct RecurrenceResult {
  at::Tensor o;            // [B,T,H,V], dtype of v
  at::Tensor final_state;  // [B,H,K,V], fp32, or fp64 for fp64 inputs; maybe undefined where it is
                           // not wanted
};

using RecurrenceFunction = RecurrenceResult (*)(const RecurrenceArgs&, ExecutionPath);

enum class DecayShape { kScalar, kVector };

// Arguments after the checks: computation is in one dtype, nothing is implied.
struct PreparedRecurrence {
  std::int64_t batch_size = 0;
  std::int64_t seq_len = 0;
  std::int64_t num_heads = 0;
  std::int64_t head_k_dim = 0;
  std::int64_t head_v_dim = 0;
  // fp64 for fp64 inputs, else fp32: states, gates and their sums never lose precision to a bf16
  // input.
  at::ScalarType compute_dtype = at::kFloat;
  double scale = 0;
};

// Throws std::logic_error when a shape, dtype or device disagrees with the comments of
// RecurrenceArgs, or when `beta` is defined for a core without it (and the reverse). Values are not
// inspected: that would wait for the device.
PreparedRecurrence Prepare(const RecurrenceArgs& args, DecayShape decay_shape, bool has_beta);

// Whether gradients of the core will be formed.
bool NeedsGradients(const RecurrenceArgs& args);

// Tells (plan.h) that `core` runs by `plan` in both passes, without device code for this `reason`.
void RecordFallback(std::string_view core, const RecurrenceArgs& args, std::string_view plan,
                    std::string_view reason);

// `function`, which has masked products, of args whose first token that is not finite and all later
// ones of a sequence and head are zeros; their results and the final state are NaN. (Queries are
// left as they are: each reads for itself.) kernels/linear_attention/non_finite.h
RecurrenceResult ContainNonFinite(
    const RecurrenceArgs& args,
    const std::function<RecurrenceResult(const RecurrenceArgs&)>& function);

// args.initial_state in the compute dtype, zeros when there is none. [B,H,K,V]
at::Tensor InitialState(const RecurrenceArgs& args, const PreparedRecurrence& sizes);

// Adapts a typed function to CoreEntry::run, with the names of the fields of RecurrenceArgs and
// RecurrenceResult.
CoreEntry RecurrenceEntry(RecurrenceFunction function, DecayShape decay_shape, bool has_beta);

}  // namespace mixerbench::kernels
