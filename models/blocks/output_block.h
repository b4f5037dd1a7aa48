// What follows a core with heads: norm, gate, projection.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include <ATen/core/Tensor.h>

#include "kernels/core.h"
#include "models/blocks/linear.h"
#include "models/blocks/norms.h"
#include "models/mixer.h"
#include "models/parameters.h"

namespace mixerbench::models {

enum class OutputNormKind {
  kNone,
  kPerHead,       // RMSNorm of each head, one weight [V] for all
  kAllHeads,      // RMSNorm over all heads together, or over norm_groups parts, weight [H V]
  kGroup,         // mean and variance of each head, weight and bias [H V] (a group norm)
  kLayerPerHead,  // mean and variance of each head, no parameters
};

struct OutputLayout {
  bool silu_before_norm = false;  // of what the heads read
  OutputNormKind norm = OutputNormKind::kPerHead;
  OutputGate gate = OutputGate::kNone;
  bool gate_before_norm = false;
  std::int64_t norm_groups = 1;  // of kAllHeads
  std::int64_t gate_rank = 0;    // width between the two projections of the gate; 0: one projection
  bool gate_bias = false;        // of the gate's logits
  double eps = 1e-5;
  double norm_weight = 1;  // at which the weights of kGroup start
  // Of o_proj. Policies rescale the residual output alone, which sources go by its name for: those
  // that call it out_proj.
  ParameterRole projection_role = ParameterRole::kLinearWeight;
  LinearInit projection_init = LinearInit::kBackbone;

  // Columns that the gate takes of the mixer's first projection, for heads of `width` channels
  // together.
  std::int64_t gate_columns(std::int64_t width) const {
    if (gate == OutputGate::kNone) return 0;
    return gate_rank > 0 ? gate_rank : width;
  }
};

class OutputBlock {
 public:
  // Parameters `o_norm`, `gate_proj` (of a gate of two projections), `gate_bias` (of one) and,
  // unless whoever holds the mixer projects, `o_proj`.
  OutputBlock(const OutputLayout& layout, std::int64_t num_heads, std::int64_t head_v_dim,
              const MixerContext& context, const ParameterScope& scope);

  std::int64_t output_dim() const { return output_dim_; }

  // o [...,H,V]; gate [...,gate_columns], undefined without; added [...,H V]: what joins after the
  // norm, undefined: nothing -> [...,output_dim], dtype of o.
  at::Tensor operator()(const at::Tensor& o, const at::Tensor& gate, const at::Tensor& added,
                        kernels::ExecutionPath path) const;

 private:
  at::Tensor GateLogits(const at::Tensor& gate, kernels::ExecutionPath path) const;
  at::Tensor Activated(const at::Tensor& logits) const;
  // [...,H,V] -> [...,H V]. `logits`: of a gate that is applied in the same pass, or undefined.
  at::Tensor Normed(const at::Tensor& o, const at::Tensor& logits,
                    kernels::ExecutionPath path) const;

  OutputLayout layout_;
  bool norm_applies_gate_;
  std::optional<OutputNorm> rms_norm_;
  at::Tensor group_weight_;  // defined for kGroup and for kAllHeads in several groups
  at::Tensor group_bias_;    // defined for kGroup
  std::optional<Linear> gate_proj_;
  at::Tensor gate_bias_;  // undefined without
  std::optional<Linear> o_proj_;
  std::int64_t output_dim_;
};

}  // namespace mixerbench::models
