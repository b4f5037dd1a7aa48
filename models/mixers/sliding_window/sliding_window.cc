// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/sliding_window/sliding_window.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/full.h>

#include "models/mixer_entry.h"

namespace mixerbench::models::sliding_window {
namespace {

const Fields<SlidingWindowConfig>& ConfigFields() {
  static const auto fields = AttentionFields<SlidingWindowConfig>().Add(
      "window", &SlidingWindowConfig::window, "keys that a query sees, its own among them");
  return fields;
}

class SlidingWindow final : public Mixer {
 public:
  SlidingWindow(const AttentionLayout& layout, const SlidingWindowConfig& config,
                const MixerContext& context, const ParameterScope& scope)
      : window_(config.window), dropout_(config.dropout), heads_(layout, context.d_model, scope) {
    if (!context.output_projection) return;
    out_proj_.emplace(scope.Child("out_proj"), context.d_model, context.d_model, config.out_bias,
                      ParameterRole::kResidualOutputWeight);
  }

  State InitialState(std::int64_t batch_size) const override {
    const at::Tensor rows = heads_.Empty(batch_size, window_);
    return Buffer(rows, rows, /*position=*/0);
  }

  Mixed Mix(const MixerInputs& inputs, const MixerOptions& options) const override {
    const at::Tensor old_position = Find(options.initial_state, "position");
    const std::int64_t position = old_position.defined() ? old_position.item<std::int64_t>() : 0;
    const bool scored_queries = heads_.FewQueries(options, inputs.x.size(1), position);
    AttentionTokens tokens = heads_.Project(inputs.x, options, scored_queries);
    heads_.Place(tokens, position, options, scored_queries);
    // The first query sees all of the buffer but its oldest row, as far as it is filled.
    const std::int64_t num_before = std::min(position, window_ - 1);
    const auto seen = [&](const char* name, const at::Tensor& x) {
      if (num_before == 0) return x;
      const at::Tensor rows =
          Find(options.initial_state, name).narrow(1, window_ - num_before, num_before);
      return at::cat({rows.to(x.scalar_type()), x}, 1);
    };

    kernels::SoftmaxAttentionArgs args;
    args.q = tokens.q;
    args.k = seen("k", tokens.k);
    args.v = seen("v", tokens.v);
    args.window = window_;
    if (options.generator) {
      args.dropout_p = dropout_;
      args.generator = options.generator;
    }
    heads_.SetScores(args, options, scored_queries);
    at::Tensor o = kernels::SoftmaxAttention(args, options.path).flatten(2);
    if (scored_queries) o = o.flatten(0, 1);

    Mixed mixed{.tokens = {{o, /*selected=*/scored_queries}}};
    if (options.want_final_state) {
      mixed.final_state = Buffer(LastRows(args.k), LastRows(args.v), position + inputs.x.size(1));
    }
    return mixed;
  }

  at::Tensor Output(const Mixed& mixed, const MixerOptions& options) const override {
    const at::Tensor& o = mixed.tokens[0].value;
    return out_proj_ ? (*out_proj_)(o, options.path) : o;
  }

 private:
  static State Buffer(const at::Tensor& k, const at::Tensor& v, std::int64_t position) {
    return {.tensors = {
                {"k", {k}},
                {"v", {v}},
                {"position",
                 {at::full({}, position, at::TensorOptions(at::kLong)), StateKind::kPosition}}}};
  }

  // The last `window` of x [B,S,Hk,D], with zeros in the place of tokens that were not.
  at::Tensor LastRows(const at::Tensor& x) const {
    const std::int64_t missing = window_ - x.size(1);
    if (missing <= 0) return x.narrow(1, -missing, window_);
    return at::constant_pad_nd(x, {0, 0, 0, 0, missing, 0});
  }

  std::int64_t window_;
  double dropout_;
  AttentionHeads heads_;
  std::optional<Linear> out_proj_;
};

std::unique_ptr<Mixer> Make(const SlidingWindowConfig& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  CheckRange(config.window, 1, std::int64_t{1} << 24, where, "window");
  return std::make_unique<SlidingWindow>(AttentionLayoutOf(config, context.d_model, where), config,
                                         context, scope);
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeMixerEntry(ConfigFields(), Make);
  entry.summary = "softmax attention over the last tokens, with a state of fixed size";
  entry.source = "arXiv 2004.05150; in Based 2402.18668, Mistral 2310.06825";
  entry.test_configs = {
      Object{{"window", 5}, {"position", "rope"}, {"qkv_bias", false}, {"out_bias", false}},
      Object{{"window", 2},
             {"num_heads", 4},
             {"num_kv_heads", 2},
             {"position", "rope"},
             {"rotary_dim", 2},
             {"qk_norm", true},
             {"norm_eps", 1e-6},
             {"dropout", 0.25}},
      Object{{"window", 66}, {"position", "alibi"}, {"sinks", true}},
      Object{{"window", 1}},
  };
  registry.Add("sliding_window", std::move(entry));
}

}  // namespace mixerbench::models::sliding_window
