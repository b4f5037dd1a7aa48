// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/hyena/hyena.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/zeros.h>

#include "base/check.h"
#include "models/blocks/config_checks.h"
#include "models/blocks/dtype.h"
#include "models/blocks/implicit_convolution.h"
#include "models/blocks/linear.h"
#include "models/blocks/long_convolution.h"
#include "models/blocks/routing.h"
#include "models/blocks/short_convolution.h"
#include "models/mixer_entry.h"

namespace mixerbench::models::hyena {
namespace {

constexpr char kConvolution[] = "conv";
constexpr char kInputs[] = "inputs";
constexpr std::int64_t kConvSize = 3;
constexpr std::int64_t kFeatures = 3;
constexpr std::int64_t kHiddenLayers = 2;

const Fields<HyenaConfig>& ConfigFields() {
  static const auto fields =
      Fields<HyenaConfig>()
          .Add("inner_factor", &HyenaConfig::inner_factor, "channels per channel of d_model")
          .Add("proj_groups", &HyenaConfig::proj_groups,
               "the projection has that many times fewer columns, which are repeated")
          .Add("head_dim", &HyenaConfig::head_dim,
               "channels of a head: they share a filter and are crossed with each other")
          .Add("filter_width", &HyenaConfig::filter_width,
               "width of the network that makes the filters")
          .Add("filter_frequency", &HyenaConfig::filter_frequency,
               "frequency of its sines at the start")
          .Add("num_experts", &HyenaConfig::num_experts,
               "groups of channels that a router weighs, 0 is none")
          .Add("expert_dim", &HyenaConfig::expert_dim,
               "channels of each; inner_factor then has no meaning")
          .Add("active_experts", &HyenaConfig::active_experts, "groups that a token chooses");
  return fields;
}

// Filters that a network with sines makes of learned features of the position, under a window.
class HyenaFilter {
 public:
  HyenaFilter(const ParameterScope& scope, const HyenaConfig& config, std::int64_t num_filters,
              std::int64_t max_seq_len)
      : features_(scope.AddSpecial("z", PositionFeatures(max_seq_len, max_seq_len, at::kCPU))),
        frequency_(scope.AddSpecial("freq", {config.filter_width},
                                    Init::Constant(config.filter_frequency))),
        output_(scope.Child("output"), config.filter_width, num_filters, /*bias=*/false) {
    for (std::int64_t i = 0; i <= kHiddenLayers; ++i) {
      layers_.emplace_back(scope.Child("layers." + std::to_string(i)),
                           i == 0 ? kFeatures : config.filter_width, config.filter_width,
                           /*bias=*/true);
    }
  }

  // [length,num_filters] in `dtype`.
  at::Tensor operator()(std::int64_t length, at::ScalarType dtype, ExecutionPath path) const {
    at::Tensor x = features_.narrow(0, 0, length).to(dtype);
    for (const Linear& layer : layers_) x = (layer(x, path) * frequency_.to(dtype)).sin();
    return output_(x, path) * Window(length).to(dtype);
  }

 private:
  // exp(-t |delta_c|), t in units of the longest input, the slowest channel first.
  at::Tensor Window(std::int64_t length) const {
    const auto doubles = features_.options().dtype(at::kDouble).requires_grad(false);
    const double target = std::log(0.01);
    const at::Tensor delta =
        at::linspace(target / 1.5, target / 0.3, output_.weight().size(0), doubles);
    const auto period = static_cast<double>(std::max<std::int64_t>(1, features_.size(0) - 1));
    return (at::arange(length, doubles).unsqueeze(-1) / -period * delta.abs()).exp();
  }

  at::Tensor features_;   // [L,3]
  at::Tensor frequency_;  // [W]
  std::vector<Linear> layers_;
  Linear output_;
};

std::int64_t InnerWidth(const HyenaConfig& config, std::int64_t d_model) {
  if (config.num_experts > 0) return config.num_experts * config.expert_dim;
  return config.inner_factor * d_model;
}

class Hyena final : public Mixer {
 public:
  Hyena(const HyenaConfig& config, const MixerContext& context, const ParameterScope& scope)
      : inner_(InnerWidth(config, context.d_model)),
        read_(config.num_experts > 0 ? config.expert_dim : inner_),
        active_experts_(config.active_experts),
        head_dim_(config.head_dim),
        groups_(config.proj_groups),
        max_seq_len_(std::max<std::int64_t>(1, context.max_seq_len)),
        in_proj_(scope.Child("in_proj"), context.d_model, 3 * inner_ / groups_, /*bias=*/true),
        conv_(scope.Child("conv"), 3 * inner_, kConvSize, /*bias=*/true),
        filter_(scope.Child("filter"), config, inner_ / head_dim_, max_seq_len_),
        skip_(scope.Add("filter.bias", {inner_ / head_dim_}, ParameterRole::kOwnWeight,
                        Init::Normal(1))) {
    if (config.num_experts > 0) {
      router_.emplace(scope.Child("router"), context.d_model, config.num_experts, /*bias=*/true);
    }
    if (!context.output_projection) return;
    out_proj_.emplace(scope.Child("out_proj"), read_, context.d_model, /*bias=*/true,
                      ParameterRole::kResidualOutputWeight);
  }

  MixerTraits traits() const override {
    return {.discrete = router_.has_value(),
            .max_seq_len = max_seq_len_,
            .output_dim = out_proj_ ? out_proj_->weight().size(0) : read_};
  }

  State InitialState(std::int64_t batch_size) const override {
    return StateOf(conv_.InitialHistory(batch_size),
                   at::zeros({batch_size, 0, inner_ * head_dim_},
                             AtLeastFloat(skip_).options().requires_grad(false)));
  }

  Mixed Mix(const MixerInputs& inputs, const MixerOptions& options) const override {
    at::Tensor projected = in_proj_(inputs.x, options.path);
    if (groups_ > 1) projected = projected.repeat({1, 1, groups_});
    const auto convolved =
        conv_(projected, Find(options.initial_state, kConvolution), options.path);
    const auto heads = convolved.y.unflatten(-1, {3, -1, head_dim_}).unbind(2);  // [B,T,H,E]
    // MAD's heads are written with the second gate and read with the first.
    const std::size_t writer = head_dim_ > 1 ? 1 : 0;
    const at::Tensor &write = heads[writer], &read = heads[1 - writer];
    // Each channel of v with each of the gate that writes: [B,T,H E E].
    const at::Tensor crossed =
        AtLeastFloat(heads[2].unsqueeze(-1) * write.unsqueeze(-2)).flatten(2);
    const at::Tensor old = Find(options.initial_state, kInputs);
    const at::Tensor all =
        old.defined() ? at::cat({old.to(crossed.scalar_type()), crossed}, 1) : crossed;
    Require(all.size(1) <= max_seq_len_,
            "the filters of hyena are " + std::to_string(max_seq_len_) +
                " tokens long, the input " + std::to_string(all.size(1)));
    const at::ScalarType dtype = crossed.scalar_type();
    const at::Tensor s = LongConvolution(all, OfChannels(filter_(all.size(1), dtype, options.path)),
                                         crossed.size(1), options.path) +
                         crossed * OfChannels(skip_.to(dtype).unsqueeze(0)).squeeze(0);
    const at::Tensor by_heads =
        s.to(inputs.x.scalar_type())
            .view_as(read.unsqueeze(-1).expand({-1, -1, -1, -1, head_dim_}));
    Mixed mixed;
    mixed.tokens = {{(by_heads * read.unsqueeze(-1)).sum(-2).flatten(2)}};
    if (router_) {
      mixed.tokens.push_back({(*router_)(inputs.x, options.path)});
      options.taps.Record("router", WeightsOf(mixed.tokens[1].value));
    }
    if (options.want_final_state) mixed.final_state = StateOf(convolved.history, all);
    return mixed;
  }

  at::Tensor Output(const Mixed& mixed, const MixerOptions& options) const override {
    at::Tensor y = mixed.tokens[0].value;
    if (router_) {
      // Channel i of expert e is column i E + e.
      const at::Tensor weights = WeightsOf(mixed.tokens[1].value).to(y.scalar_type());
      y = (y.unflatten(-1, {read_, -1}) * weights.unsqueeze(-2)).sum(-1);
    }
    return out_proj_ ? (*out_proj_)(y, options.path) : y;
  }

 private:
  static State StateOf(const at::Tensor& history, const at::Tensor& inputs) {
    return {.tensors = {{kConvolution, {history, StateKind::kConvolution}},
                        {kInputs, {inputs, StateKind::kCache}}}};
  }

  // Of each filter [.,H] what its E E channels use, [.,H E E].
  at::Tensor OfChannels(const at::Tensor& x) const {
    if (head_dim_ == 1) return x;
    return x.unsqueeze(-1).expand({-1, -1, head_dim_ * head_dim_}).flatten(1);
  }

  // Router logits [...,E] -> weights of the experts.
  at::Tensor WeightsOf(const at::Tensor& logits) const {
    return ExpertWeights(logits, active_experts_, /*leaves_out=*/false);
  }

  std::int64_t inner_;
  std::int64_t read_;  // channels that leave the experts; without these inner_
  std::int64_t active_experts_;
  std::int64_t head_dim_;
  std::int64_t groups_;
  std::int64_t max_seq_len_;
  Linear in_proj_;
  ShortConvolution conv_;
  HyenaFilter filter_;
  at::Tensor skip_;  // [inner / head_dim]
  std::optional<Linear> router_;
  std::optional<Linear> out_proj_;
};

std::unique_ptr<Mixer> Make(const HyenaConfig& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  CheckRange(config.inner_factor, 1, 64, where, "inner_factor");
  CheckRange(config.num_experts, 0, 1024, where, "num_experts");
  if (config.num_experts > 0) {
    CheckRange(config.expert_dim, 1, 1 << 16, where, "expert_dim");
    CheckRange(config.active_experts, 1, config.num_experts, where, "active_experts");
    if (config.inner_factor != 1) {
      throw ConfigError(where + "/inner_factor", "has no meaning with experts: see expert_dim");
    }
  } else if (config.expert_dim != HyenaConfig{}.expert_dim ||
             config.active_experts != HyenaConfig{}.active_experts) {
    throw ConfigError(where + "/num_experts", "0: expert_dim and active_experts have no meaning");
  }
  const std::int64_t inner = InnerWidth(config, context.d_model);
  DivideExactly(3 * inner, config.proj_groups, where, "proj_groups",
                "three times the inner width,");
  DivideExactly(inner, config.head_dim, where, "head_dim", "the inner width");
  CheckRange(config.filter_width, 1, 1 << 16, where, "filter_width");
  CheckPositive(config.filter_frequency, where, "filter_frequency");
  return std::make_unique<Hyena>(config, context, scope);
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeMixerEntry(ConfigFields(), Make);
  entry.summary = "Hyena: gates around an implicit convolution as long as the input";
  entry.source = "arXiv 2302.10866, HazyResearch/zoology d88d6f5, athms/mad-lab 0f49a45";
  entry.test_configs = {
      Object{{"inner_factor", 4}, {"proj_groups", 4}, {"filter_width", 4}},
      Object{{"proj_groups", 2}, {"head_dim", 4}, {"filter_width", 2}, {"filter_frequency", 3}},
      Object{{"num_experts", 4}, {"expert_dim", 3}, {"active_experts", 1}, {"filter_width", 8}},
  };
  registry.Add("hyena", std::move(entry));
}

}  // namespace mixerbench::models::hyena
