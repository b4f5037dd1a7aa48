// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/delta_rule_mixer.h"

#include <utility>
#include <vector>

#include <ATen/ops/cat.h>
#include <ATen/ops/elu.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/zeros.h>

#include "base/check.h"
#include "kernels/delta_rule/delta_rule.h"
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

MixerOutput DeltaRuleMixer::Forward(const at::Tensor& x, const ForwardOptions& options) const {
  const std::int64_t batch_size = x.size(0);
  const std::int64_t seq_len = x.size(1);
  const std::int64_t num_v_heads = layout_.num_v_heads;
  const State* initial = options.initial_state;
  MixerOutput output;

  std::vector<std::int64_t> sizes = {2 * key_dim() + value_dim(), num_v_heads};
  if (layout_.use_decay) sizes.push_back(num_v_heads);
  if (layout_.output_gate != OutputGate::kNone) sizes.push_back(value_dim());
  const std::vector<at::Tensor> parts = in_proj_(x).split_with_sizes(sizes, -1);

  at::Tensor qkv = parts[0];
  if (conv_) {
    const auto convolved = (*conv_)(qkv, initial != nullptr ? initial->at("conv") : at::Tensor());
    qkv = convolved.y;
    if (options.want_final_state) output.final_state["conv"] = convolved.history;
  }

  at::Tensor qk;
  at::Tensor v;
  if (layout_.qk_activation == QkActivation::kSilu) {
    const at::Tensor activated = at::silu(qkv);
    qk = activated.narrow(-1, 0, 2 * key_dim());
    v = activated.narrow(-1, 2 * key_dim(), value_dim());
  } else {
    qk = Activate(qkv.narrow(-1, 0, 2 * key_dim()), layout_.qk_activation);
    v = at::silu(qkv.narrow(-1, 2 * key_dim(), value_dim()));
  }
  qk = NormaliseKeys(qk.view({batch_size, seq_len, 2, layout_.num_heads, layout_.head_k_dim}));
  if (num_v_heads != layout_.num_heads) {
    qk = qk.repeat_interleave(num_v_heads / layout_.num_heads, 3);
  }

  kernels::RecurrenceArgs args;
  args.q = qk.select(2, 0);
  args.k = qk.select(2, 1);
  args.v = v.view({batch_size, seq_len, num_v_heads, layout_.head_v_dim});
  args.beta = at::sigmoid(AtLeastFloat(parts[1]));
  if (layout_.allow_neg_eigval) args.beta = args.beta * 2;
  if (options.taps != nullptr) {
    args.beta = options.taps->OverriddenWriteGate(args.beta);
    options.taps->Record("write_gate", args.beta);
  }
  if (decay_) {
    args.log_decay = (*decay_)(parts[2]);
    if (options.taps != nullptr) options.taps->Record("log_decay", args.log_decay);
  }
  if (initial != nullptr) args.initial_state = initial->at("state");
  kernels::RecurrenceResult result = kernels::DeltaRule(args, options.path);
  if (options.taps != nullptr) TapState(*options.taps, result.final_state);

  at::Tensor gate;
  if (layout_.output_gate != OutputGate::kNone) gate = parts.back().view(result.o.sizes());
  output.y = o_proj_(norm_(result.o, gate).reshape({batch_size, seq_len, value_dim()}));
  if (options.want_final_state) output.final_state["state"] = std::move(result.final_state);
  return output;
}

State DeltaRuleMixer::InitialState(std::int64_t batch_size) const {
  State state;
  state["state"] =
      at::zeros({batch_size, layout_.num_v_heads, layout_.head_k_dim, layout_.head_v_dim},
                AtLeastFloat(in_proj_.weight()).options().requires_grad(false));
  if (conv_) state["conv"] = conv_->InitialHistory(batch_size);
  return state;
}

StateSize DeltaRuleMixer::state_size(std::int64_t) const {
  StateSize size;
  size.recurrent = layout_.num_v_heads * layout_.head_k_dim * layout_.head_v_dim;
  if (conv_) size.conv = conv_->width() * conv_->channels();
  return size;
}

}  // namespace mixerbench::models
