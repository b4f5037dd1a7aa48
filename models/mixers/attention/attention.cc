// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/attention/attention.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/eye.h>

#include "models/blocks/dtype.h"
#include "models/mixer_entry.h"

namespace mixerbench::models::attention {
namespace {

const Fields<AttentionConfig>& ConfigFields() {
  static const auto fields = AttentionFields<AttentionConfig>();
  return fields;
}

constexpr double kLeastWeight = 0.2;  // that counts as looking somewhere

// How far back each query looks: r_i = sum_j A_ij (i - j) over the weights A_ij >= kLeastWeight of
// the keys after the first, which is where queries look that need nothing. [B,T,H]
// Source: SILA, Algorithm 1.
at::Tensor AttentionDistance(kernels::SoftmaxAttentionArgs args, kernels::ExecutionPath path) {
  const at::NoGradGuard no_grad;
  args.q = AtLeastFloat(args.q);
  args.k = AtLeastFloat(args.k);
  args.dropout_p = 0;
  const std::int64_t num_keys = args.k.size(1);
  const std::int64_t num_queries = args.q.size(1);
  // What queries read of an identity are their weights.
  args.v = at::eye(num_keys, args.k.options())
               .unsqueeze(1)
               .expand({args.k.size(0), -1, args.k.size(2), -1});
  const at::Tensor weights = kernels::SoftmaxAttention(args, path);  // [B,T,H,S]
  const at::Tensor keys = at::arange(num_keys, weights.options());
  const at::Tensor distance =
      keys.narrow(0, num_keys - num_queries, num_queries).view({-1, 1, 1}) - keys;  // [T,1,S]
  const at::Tensor counts = weights.ge(kLeastWeight) & keys.gt(0);
  return (weights * counts * distance).sum(-1);
}

class Attention final : public Mixer {
 public:
  Attention(const AttentionLayout& layout, const AttentionConfig& config,
            const MixerContext& context, const ParameterScope& scope)
      : heads_(layout, context.d_model, scope), dropout_(config.dropout) {
    if (!context.output_projection) return;
    out_proj_.emplace(scope.Child("out_proj"), context.d_model, context.d_model, config.out_bias,
                      ParameterRole::kResidualOutputWeight);
  }

  State InitialState(std::int64_t batch_size) const override {
    const at::Tensor empty = heads_.Empty(batch_size, /*num_tokens=*/0);
    return Cache(empty, empty);
  }

  Mixed Mix(const MixerInputs& inputs, const MixerOptions& options) const override {
    const at::Tensor old_k = Find(options.initial_state, "k");
    const std::int64_t num_before = old_k.defined() ? old_k.size(1) : 0;
    const bool scored_queries = heads_.FewQueries(options, inputs.x.size(1), num_before);
    AttentionTokens tokens = heads_.Project(inputs.x, options, scored_queries);
    heads_.Place(tokens, num_before, options, scored_queries);
    if (num_before > 0) {
      tokens.k = at::cat({old_k.to(tokens.k.scalar_type()), tokens.k}, 1);
      tokens.v =
          at::cat({Find(options.initial_state, "v").to(tokens.v.scalar_type()), tokens.v}, 1);
    }

    kernels::SoftmaxAttentionArgs args;
    args.q = tokens.q;
    args.k = tokens.k;
    args.v = tokens.v;
    if (options.generator) {
      args.dropout_p = dropout_;
      args.generator = options.generator;
    }
    heads_.SetScores(args, options, scored_queries);
    if (!scored_queries && options.taps.Wants("attention_distance")) {
      options.taps.Record("attention_distance", AttentionDistance(args, options.path));
    }
    at::Tensor o = kernels::SoftmaxAttention(args, options.path).flatten(2);
    if (scored_queries) o = o.flatten(0, 1);

    Mixed mixed{.tokens = {{o, /*selected=*/scored_queries}}};
    if (options.want_final_state) mixed.final_state = Cache(tokens.k, tokens.v);
    return mixed;
  }

  at::Tensor Output(const Mixed& mixed, const MixerOptions& options) const override {
    const at::Tensor& o = mixed.tokens[0].value;
    return out_proj_ ? (*out_proj_)(o, options.path) : o;
  }

 private:
  static State Cache(const at::Tensor& k, const at::Tensor& v) {
    return {.tensors = {{"k", {k, StateKind::kCache}}, {"v", {v, StateKind::kCache}}}};
  }

  AttentionHeads heads_;
  double dropout_;
  std::optional<Linear> out_proj_;
};

std::unique_ptr<Mixer> Make(const AttentionConfig& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  return std::make_unique<Attention>(AttentionLayoutOf(config, context.d_model, where), config,
                                     context, scope);
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeMixerEntry(ConfigFields(), Make);
  entry.summary = "softmax attention with a growing key-value cache";
  entry.source =
      "arXiv 1706.03762; grouped heads 2305.13245; rotary positions 2104.09864; ALiBi 2108.12409";
  entry.test_configs = {
      Object{{"position", "rope"}, {"num_kv_heads", 1}, {"qkv_bias", false}, {"out_bias", false}},
      Object{{"num_heads", 4},
             {"num_kv_heads", 2},
             {"position", "rope"},
             {"rotary_dim", 2},
             {"qk_norm", true},
             {"norm_eps", 1e-6},
             {"dropout", 0.25}},
      Object{{"num_heads", 4}, {"num_kv_heads", 2}, {"position", "alibi"}, {"sinks", true}},
  };
  registry.Add("attention", std::move(entry));
}

}  // namespace mixerbench::models::attention
