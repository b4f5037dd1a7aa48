// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/delta_rule_mixer.h"

#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/elu.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>

#include "base/check.h"
#include "kernels/delta_rule/delta_rule.h"
#include "kernels/fused/columns.h"
#include "kernels/fused/gates.h"
#include "models/blocks/dtype.h"
#include "models/blocks/write_strength.h"

namespace mixerbench::models {
namespace {

at::Tensor Activate(const at::Tensor& x, QkActivation activation) {
  switch (activation) {
    case QkActivation::kIdentity:
      return x;
    case QkActivation::kSilu:
      return at::silu(x);
    case QkActivation::kRelu:
      return at::relu(x);
    case QkActivation::kElu1:
      return at::elu(x) + 1;
  }
  Require(false, "unknown activation");
  return {};
}

std::int64_t InProjectionRows(const DeltaRuleLayout& l) {
  const std::int64_t value_dim = l.num_v_heads * l.head_v_dim;
  return 2 * l.num_heads * l.head_k_dim + value_dim + l.num_v_heads +
         (l.use_decay ? l.num_v_heads : 0) + (l.output_gate != OutputGate::kNone ? value_dim : 0);
}

}  // namespace

DeltaRuleMixer::DeltaRuleMixer(const DeltaRuleLayout& layout, std::int64_t d_model,
                               const ParameterScope& scope)
    : layout_(layout),
      in_proj_(scope.Child("in_proj"), d_model, InProjectionRows(layout), /*bias=*/false),
      norm_(scope.Child("o_norm"), layout.head_v_dim, layout.norm_eps, layout.output_gate),
      o_proj_(scope.Child("o_proj"), value_dim(), d_model, /*bias=*/false) {
  if (layout.conv_size > 0) {
    conv_.emplace(scope.Child("conv"), 2 * key_dim() + value_dim(), layout.conv_size,
                  /*bias=*/false);
  }
  if (layout.use_decay) decay_.emplace(scope, layout.num_v_heads);
}

at::Tensor DeltaRuleMixer::NormaliseKeys(const at::Tensor& qk) const {
  if (layout_.qk_norm == QkNorm::kL2) return L2Norm(qk);
  const at::Tensor wide = AtLeastFloat(qk);
  return (wide / wide.sum(-1, /*keepdim=*/true)).to(qk.scalar_type());
}

DeltaRuleMixer::Heads DeltaRuleMixer::SplitHeads(const at::Tensor& qkv, ExecutionPath path) const {
  const auto columns = kernels::fused::SplitColumns(qkv, {key_dim(), key_dim(), value_dim()}, path);
  return {columns[0].unflatten(-1, {layout_.num_heads, layout_.head_k_dim}),
          columns[1].unflatten(-1, {layout_.num_heads, layout_.head_k_dim}),
          columns[2].unflatten(-1, {layout_.num_v_heads, layout_.head_v_dim})};
}

std::vector<at::Tensor> DeltaRuleMixer::Project(const at::Tensor& x, const ForwardOptions& options,
                                                State& final_state) const {
  std::vector<kernels::fused::ColumnBlock> blocks = {
      2 * key_dim() + value_dim(), (layout_.use_decay ? 2 : 1) * layout_.num_v_heads};
  if (layout_.output_gate != OutputGate::kNone) {
    blocks.emplace_back(value_dim(), /*only_at_rows=*/true);
  }
  if (!conv_) return in_proj_.Columns(x, blocks, options.rows, options.path);
  const State* initial = options.initial_state;
  auto projected = conv_->Project(in_proj_, x, blocks, options.rows,
                                  initial != nullptr ? initial->at("conv") : at::Tensor(),
                                  {.silu = layout_.qk_activation == QkActivation::kSilu,
                                   .norm_channels = NormalisesInConvolution() ? 2 * key_dim() : 0,
                                   .norm_dim = layout_.head_k_dim,
                                   .path = options.path});
  if (options.want_final_state) final_state["conv"] = projected.history;
  return projected.columns;
}

bool DeltaRuleMixer::NormalisesInConvolution() const {
  return conv_ && layout_.qk_activation == QkActivation::kSilu && layout_.qk_norm == QkNorm::kL2;
}

DeltaRuleMixer::Heads DeltaRuleMixer::ComputeHeads(const at::Tensor& projected,
                                                   ExecutionPath path) const {
  const bool silu = layout_.qk_activation == QkActivation::kSilu;
  const at::Tensor qkv = silu && !conv_ ? at::silu(projected) : projected;
  Heads heads = SplitHeads(qkv, path);
  if (!silu) {
    heads.q = Activate(heads.q, layout_.qk_activation);
    heads.k = Activate(heads.k, layout_.qk_activation);
    heads.v = at::silu(heads.v);
  }
  if (!NormalisesInConvolution()) {
    heads.q = NormaliseKeys(heads.q);
    heads.k = NormaliseKeys(heads.k);
  }
  if (layout_.num_v_heads != layout_.num_heads) {
    heads.q = heads.q.repeat_interleave(layout_.num_v_heads / layout_.num_heads, 2);
    heads.k = heads.k.repeat_interleave(layout_.num_v_heads / layout_.num_heads, 2);
  }
  return heads;
}

MixerOutput DeltaRuleMixer::Forward(const at::Tensor& x, const ForwardOptions& options) const {
  const State* initial = options.initial_state;
  MixerOutput output;

  const bool gated = layout_.output_gate != OutputGate::kNone;
  const auto parts = Project(x, options, output.final_state);
  Heads heads = ComputeHeads(parts[0], options.path);
  kernels::fused::DeltaGatesArgs gate_args{.z = parts[1],
                                           .beta_scale = layout_.allow_neg_eigval ? 2.0 : 1.0};
  if (decay_) {
    gate_args.A_log = decay_->A_log;
    gate_args.dt_bias = decay_->dt_bias;
  }
  const auto gates = kernels::fused::ComputeDeltaGates(gate_args, options.path);

  kernels::RecurrenceArgs args;
  args.q = heads.q;
  args.k = heads.k;
  args.v = heads.v;
  args.beta = gates.beta;
  args.log_decay = gates.log_decay;
  if (options.taps != nullptr) {
    args.beta = options.taps->OverriddenWriteGate(args.beta);
    options.taps->Record("write_gate", args.beta);
    if (decay_) options.taps->Record("log_decay", args.log_decay);
  }
  if (initial != nullptr) args.initial_state = initial->at("state");
  args.wants_final_state = options.want_final_state || options.taps != nullptr;
  kernels::RecurrenceResult result =
      options.rows != nullptr ? kernels::DeltaRuleAtRows(args, *options.rows, options.path)
                              : kernels::DeltaRule(args, options.path);
  if (options.taps != nullptr) TapState(*options.taps, result.final_state);

  const at::Tensor gate = gated ? parts.back() : at::Tensor();
  output.y = options.rows != nullptr
                 ? o_proj_(norm_.OfRows(result.o.unsqueeze(0), gate, options.path), options.path)
                 : norm_.Projected(o_proj_, result.o, gate, options.path, /*rows=*/nullptr);
  if (options.want_final_state) output.final_state["state"] = std::move(result.final_state);
  return output;
}

State DeltaRuleMixer::InitialState(std::int64_t batch_size) const {
  return StateHeads().InitialState(batch_size, in_proj_.weight(), conv_);
}

StateSize DeltaRuleMixer::state_size(std::int64_t) const { return StateHeads().state_size(conv_); }

}  // namespace mixerbench::models
