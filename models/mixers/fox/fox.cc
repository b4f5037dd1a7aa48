// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/fox/fox.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "kernels/gates/gates.h"
#include "models/blocks/dtype.h"
#include "models/blocks/output_block.h"
#include "models/mixer_entry.h"

namespace mixerbench::models::fox {
namespace {

const Fields<FoxConfig>& ConfigFields() {
  static const auto fields =
      AttentionFields<FoxConfig>()
          .Add("forget_gate", &FoxConfig::forget_gate,
               "full: of each token; bias_only: learned, one a head; fixed: constant, one a head")
          .Add("min_timescale", &FoxConfig::min_timescale,
               "tokens in which head 0 forgets at the start; 0: its gate starts at 1/2")
          .Add("max_timescale", &FoxConfig::max_timescale,
               "that of the last head, those between spread evenly in their logarithm")
          .Add("kv_shift", &FoxConfig::kv_shift,
               "keys and values are mixed with those of the token before, by a gate of the token")
          .Add("use_output_norm", &FoxConfig::use_output_norm, "RMSNorm of each head's output")
          .Add("use_output_gate", &FoxConfig::use_output_gate, "sigmoid gate of the output");
  return fields;
}

// b with log sigmoid(b_h) = -1 / T_h; 0 without timescales. [H] in float64.
at::Tensor ForgetBias(const FoxConfig& config) {
  at::Tensor bias = at::zeros({config.num_heads}, at::kDouble);
  if (config.min_timescale == 0) return bias;
  auto* values = bias.mutable_data_ptr<double>();
  const double steps = static_cast<double>(std::max<std::int64_t>(1, config.num_heads - 1));
  const double step = std::log(config.max_timescale / config.min_timescale) / steps;
  for (std::int64_t h = 0; h < config.num_heads; ++h) {
    const double timescale = config.min_timescale * std::exp(step * static_cast<double>(h));
    values[h] = -std::log(std::expm1(1 / timescale));
  }
  return bias;
}

class Fox final : public Mixer {
 public:
  Fox(const AttentionLayout& layout, const FoxConfig& config, const MixerContext& context,
      const ParameterScope& scope)
      : config_(config),
        heads_(layout, context.d_model, scope),
        output_(OutputOf(config), layout.num_heads, layout.head_dim, context, scope) {
    const at::Tensor bias = ForgetBias(config);
    forget_bias_ = config.forget_gate == ForgetGate::kFixed ? bias.to(scope.special_options())
                                                            : scope.AddSpecial("forget_bias", bias);
  }

  MixerTraits traits() const override { return {.output_dim = output_.output_dim()}; }

  State InitialState(std::int64_t batch_size) const override {
    const at::Tensor empty = heads_.Empty(batch_size, /*num_tokens=*/0);
    const auto floats = AtLeastFloat(heads_.weight()).options().requires_grad(false);
    State state = Cache(empty, empty, at::zeros({batch_size, 0, config_.num_heads}, floats));
    if (config_.kv_shift) SetLast(state, heads_.Empty(batch_size, 2).flatten(1));
    return state;
  }

  Mixed Mix(const MixerInputs& inputs, const MixerOptions& options) const override {
    const State* const before = options.initial_state;
    const at::Tensor old_k = Find(before, "k");
    const std::int64_t num_before = old_k.defined() ? old_k.size(1) : 0;
    const bool scored_queries = heads_.FewQueries(options, inputs.x.size(1), num_before);
    Mixed mixed;
    AttentionTokens tokens = heads_.Project(inputs.x, options, scored_queries);
    at::Tensor log_decay = LogDecay(tokens, options.path);
    options.taps.Record("log_decay", log_decay);
    at::Tensor last;
    if (config_.kv_shift) last = Shift(tokens, Find(before, "last"));
    heads_.Place(tokens, num_before, options, scored_queries);
    if (num_before > 0) {
      tokens.k = at::cat({old_k.to(tokens.k.scalar_type()), tokens.k}, 1);
      tokens.v = at::cat({Find(before, "v").to(tokens.v.scalar_type()), tokens.v}, 1);
      log_decay = at::cat({Find(before, "log_decay"), log_decay}, 1);
    }
    if (options.want_final_state) {
      mixed.final_state = Cache(tokens.k, tokens.v, log_decay);
      if (config_.kv_shift) SetLast(mixed.final_state, last);
    }

    kernels::SoftmaxAttentionArgs args;
    args.q = tokens.q;
    args.k = tokens.k;
    args.v = tokens.v;
    args.log_decay = log_decay;
    if (options.generator) {
      args.dropout_p = config_.dropout;
      args.generator = options.generator;
    }
    heads_.SetScores(args, options, scored_queries);
    at::Tensor o = kernels::SoftmaxAttention(args, options.path);
    if (scored_queries) o = o.flatten(0, 1);
    mixed.tokens = {{o, /*selected=*/scored_queries}};
    if (config_.use_output_gate) {
      mixed.tokens.push_back({tokens.columns.back(), /*selected=*/options.scored != nullptr});
    }
    return mixed;
  }

  at::Tensor Output(const Mixed& mixed, const MixerOptions& options) const override {
    const at::Tensor gate = config_.use_output_gate ? mixed.tokens[1].value : at::Tensor();
    return output_(mixed.tokens[0].value, gate, /*added=*/{}, options.path);
  }

 private:
  static OutputLayout OutputOf(const FoxConfig& config) {
    return {.norm = config.use_output_norm ? OutputNormKind::kPerHead : OutputNormKind::kNone,
            .gate = config.use_output_gate ? OutputGate::kSigmoid : OutputGate::kNone,
            .eps = config.norm_eps};
  }

  static State Cache(const at::Tensor& k, const at::Tensor& v, const at::Tensor& log_decay) {
    return {.tensors = {{"k", {k, StateKind::kCache}},
                        {"v", {v, StateKind::kCache}},
                        {"log_decay", {log_decay, StateKind::kCache}}}};
  }

  // last [B,2 Hk D]: the last key and value before their shift.
  static void SetLast(State& state, const at::Tensor& last) {
    state.tensors["last"] = {last, StateKind::kTokenShift};
  }

  // [B,T,H]
  at::Tensor LogDecay(const AttentionTokens& tokens, ExecutionPath path) const {
    if (config_.forget_gate == ForgetGate::kFull) {
      const at::Tensor logits = AtLeastFloat(tokens.columns[0]) + forget_bias_;
      return kernels::LogSigmoidDecay(logits, /*temperature=*/1, /*floor=*/0, path);
    }
    const at::Tensor constant =
        kernels::LogSigmoidDecay(forget_bias_.unsqueeze(0), /*temperature=*/1, /*floor=*/0, path);
    return constant.expand({tokens.k.size(0), tokens.k.size(1), config_.num_heads});
  }

  // k_t <- a k_{t-1} + (1 - a) k_t with a gate a for each key head, v likewise; `last` of the state
  // or undefined. Returns the `last` of the next call.
  at::Tensor Shift(AttentionTokens& tokens, const at::Tensor& last) const {
    const AttentionLayout& layout = heads_.layout();
    const std::int64_t batch_size = tokens.k.size(0);
    const at::Tensor kv = at::cat({tokens.k, tokens.v}, 2);  // [B,T,2 Hk,D]
    const at::Tensor first =
        last.defined() ? last.to(kv.scalar_type()).view({batch_size, 1, -1, layout.head_dim})
                       : at::zeros_like(kv.narrow(1, 0, 1));
    const at::Tensor earlier = at::cat({first, kv.narrow(1, 0, kv.size(1) - 1)}, 1);
    const at::Tensor& logits = tokens.columns[config_.forget_gate == ForgetGate::kFull ? 1 : 0];
    const at::Tensor a = at::sigmoid(AtLeastFloat(logits)).unsqueeze(-1).to(kv.scalar_type());
    const auto mixed = (kv + a * (earlier - kv)).chunk(2, 2);
    tokens.k = mixed[0];
    tokens.v = mixed[1];
    return kv.select(1, kv.size(1) - 1).flatten(1);
  }

  FoxConfig config_;
  AttentionHeads heads_;  // columns: forget logits [H], shift logits [2 Hk], output gate [H D]
  OutputBlock output_;
  at::Tensor forget_bias_;
};

std::unique_ptr<Mixer> Make(const FoxConfig& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  AttentionLayout layout = AttentionLayoutOf(config, context.d_model, where);
  if (config.qk_norm) layout.qk_norm = QkNorm::kWeightPerHead;
  if (config.min_timescale != 0 || config.max_timescale != 0) {
    CheckPositive(config.min_timescale, where, "min_timescale");
    CheckPositive(config.max_timescale, where, "max_timescale");
    if (config.min_timescale > config.max_timescale) {
      throw ConfigError(where + "/max_timescale", "must not be below min_timescale");
    }
  }
  if (config.forget_gate == ForgetGate::kFull) layout.columns.emplace_back(layout.num_heads);
  if (config.kv_shift) layout.columns.emplace_back(2 * layout.num_kv_heads);
  if (config.use_output_gate) {
    layout.columns.emplace_back(layout.query_dim(), /*only_scored=*/true);
  }
  return std::make_unique<Fox>(layout, config, context, scope);
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeMixerEntry(ConfigFields(), Make);
  entry.summary = "forgetting attention: softmax attention with a data-dependent decay of scores";
  entry.source = "arXiv 2503.02130";
  entry.test_configs = {
      Object{{"num_heads", 4},
             {"num_kv_heads", 2},
             {"qk_norm", true},
             {"norm_eps", 1e-6},
             {"kv_shift", true},
             {"use_output_norm", true},
             {"use_output_gate", true}},
      Object{{"forget_gate", "bias_only"},
             {"min_timescale", 2},
             {"max_timescale", 64},
             {"position", "rope"},
             {"rotary_dim", 4},
             {"kv_shift", true},
             {"dropout", 0.25}},
      Object{{"forget_gate", "fixed"}, {"position", "alibi"}, {"use_output_gate", true}},
  };
  registry.Add("fox", std::move(entry));
}

}  // namespace mixerbench::models::fox
