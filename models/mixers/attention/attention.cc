// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/attention/attention.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <ATen/ops/cat.h>

#include "models/mixer_entry.h"

namespace mixerbench::models::attention {
namespace {

const Fields<AttentionConfig>& ConfigFields() {
  static const auto fields = AttentionFields<AttentionConfig>();
  return fields;
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
