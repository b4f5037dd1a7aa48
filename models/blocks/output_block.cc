// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/output_block.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>

namespace mixerbench::models {
namespace {

// Whether the norm is one RMSNorm with a weight for each of its channels.
bool IsPlainRms(const OutputLayout& layout) {
  return layout.norm == OutputNormKind::kPerHead ||
         (layout.norm == OutputNormKind::kAllHeads && layout.norm_groups == 1);
}

}  // namespace

OutputBlock::OutputBlock(const OutputLayout& layout, std::int64_t num_heads,
                         std::int64_t head_v_dim, const MixerContext& context,
                         const ParameterScope& scope)
    : layout_(layout),
      norm_applies_gate_(IsPlainRms(layout) && layout.gate != OutputGate::kPlain),
      output_dim_(num_heads * head_v_dim) {
  const ParameterScope norm_scope = scope.Child("o_norm");
  if (IsPlainRms(layout)) {
    rms_norm_.emplace(
        norm_scope, layout.norm == OutputNormKind::kPerHead ? head_v_dim : output_dim_, layout.eps,
        norm_applies_gate_ ? layout.gate : OutputGate::kNone, layout.gate_before_norm);
  } else if (layout.norm == OutputNormKind::kGroup || layout.norm == OutputNormKind::kAllHeads) {
    group_weight_ = norm_scope.Add("weight", {output_dim_}, ParameterRole::kNormWeight,
                                   Init::Constant(layout.norm_weight));
    if (layout.norm == OutputNormKind::kGroup) {
      group_bias_ =
          norm_scope.Add("bias", {output_dim_}, ParameterRole::kNormBias, Init::Constant(0));
    }
  }
  if (layout.gate != OutputGate::kNone) {
    if (layout.gate_rank > 0) {
      gate_proj_.emplace(scope.Child("gate_proj"), layout.gate_rank, output_dim_, layout.gate_bias);
    } else if (layout.gate_bias) {
      gate_bias_ = scope.Add("gate_bias", {output_dim_}, ParameterRole::kLinearBias,
                             FanInUniform(context.d_model));
    }
  }
  if (!context.output_projection) return;
  o_proj_.emplace(scope.Child("o_proj"), output_dim_, context.d_model, /*bias=*/false,
                  layout.projection_role, layout.projection_init);
  output_dim_ = context.d_model;
}

at::Tensor OutputBlock::GateLogits(const at::Tensor& gate, kernels::ExecutionPath path) const {
  if (gate_proj_) return (*gate_proj_)(gate, path);
  return gate_bias_.defined() ? gate + gate_bias_.to(gate.scalar_type()) : gate;
}

at::Tensor OutputBlock::Activated(const at::Tensor& logits) const {
  switch (layout_.gate) {
    case OutputGate::kSilu:
      return at::silu(logits);
    case OutputGate::kSigmoid:
      return at::sigmoid(logits);
    case OutputGate::kNone:
    case OutputGate::kPlain:
      break;
  }
  return logits;
}

at::Tensor OutputBlock::Normed(const at::Tensor& o, const at::Tensor& logits,
                               kernels::ExecutionPath path) const {
  switch (layout_.norm) {
    case OutputNormKind::kNone:
      break;
    case OutputNormKind::kPerHead:
      return (*rms_norm_)(o, logits, path);
    case OutputNormKind::kAllHeads: {
      if (rms_norm_) return (*rms_norm_)(o.flatten(-2).unsqueeze(-2), logits, path);
      const at::Tensor groups = o.flatten(-2).unflatten(-1, {layout_.norm_groups, -1});
      return at::rms_norm(groups, {groups.size(-1)}, {}, layout_.eps).flatten(-2) *
             group_weight_.to(o.scalar_type());
    }
    case OutputNormKind::kGroup:
      return at::layer_norm(o, {o.size(-1)}, {}, {}, layout_.eps).flatten(-2) *
                 group_weight_.to(o.scalar_type()) +
             group_bias_.to(o.scalar_type());
    case OutputNormKind::kLayerPerHead:
      return at::layer_norm(o, {o.size(-1)}, {}, {}, layout_.eps).flatten(-2);
  }
  return o.flatten(-2);
}

at::Tensor OutputBlock::operator()(const at::Tensor& o, const at::Tensor& gate,
                                   const at::Tensor& added, kernels::ExecutionPath path) const {
  const at::Tensor logits = gate.defined() ? GateLogits(gate, path) : gate;
  at::Tensor read = layout_.silu_before_norm ? at::silu(o) : o;
  if (logits.defined() && layout_.gate_before_norm && !norm_applies_gate_) {
    read = read * Activated(logits).view(read.sizes());
  }
  at::Tensor y = Normed(read, norm_applies_gate_ ? logits : at::Tensor(), path);
  if (added.defined()) y = y + added;
  if (logits.defined() && !layout_.gate_before_norm && !norm_applies_gate_) {
    y = y * Activated(logits);
  }
  return o_proj_ ? (*o_proj_)(y, path) : y;
}

}  // namespace mixerbench::models
