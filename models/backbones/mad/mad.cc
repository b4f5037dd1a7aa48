// SPDX-License-Identifier: Apache-2.0
#include "models/backbones/mad/mad.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/fields.h"
#include "kernels/fused/residual_norm.h"
#include "models/backbone.h"
#include "models/blocks/config_checks.h"
#include "models/blocks/embedding.h"
#include "models/blocks/linear.h"
#include "models/blocks/mixer_layers.h"
#include "models/blocks/norms.h"

namespace mixerbench::models::mad {
namespace {

constexpr double kNormEps = 1e-5;

const Fields<MadConfig>& ConfigFields() {
  static const auto fields =
      Fields<MadConfig>()
          .Add("d_model", &MadConfig::d_model, "width of the residual stream")
          .Add("n_layers", &MadConfig::n_layers,
               "pairs of a mixer over time and a mixer over channels")
          .Add("sequence_mixer", &MadConfig::sequence_mixer, "mixer over time")
          .Add("channel_mixer", &MadConfig::channel_mixer, "mixer over channels")
          .Add("channel_mixer_dim", &MadConfig::channel_mixer_dim,
               "its inner width; 0: 4 d_model for mlp, 8/3 d_model in steps of 16 for swiglu");
  return fields;
}

// 16 ceil(int(8/3 d_model) / 16) for swiglu.
std::int64_t InnerDim(const MadConfig& config) {
  if (config.channel_mixer_dim > 0) return config.channel_mixer_dim;
  if (config.channel_mixer == ChannelMixerKind::kMlp) return 4 * config.d_model;
  constexpr std::int64_t kStep = 16;
  return (config.d_model * 8 / 3 + kStep - 1) / kStep * kStep;
}

class Mad final : public Backbone {
 public:
  Mad(const MadConfig& config, const std::string& where, const BackboneContext& context,
      ParameterSet& parameters)
      : embedding_(ParameterScope(parameters, "embedding.")
                       .Add("weight", {context.vocab_size, config.d_model},
                            ParameterRole::kEmbedding, Init::Normal(1))),
        mixers_(config.sequence_mixer, where + "/sequence_mixer", context, config.d_model,
                config.n_layers, parameters),
        has_channel_mixer_(config.channel_mixer != ChannelMixerKind::kIdentity),
        final_norm_(ParameterScope(parameters, "final_norm."), config.d_model, kNormEps),
        head_(ParameterScope(parameters, "head."), config.d_model, context.vocab_size,
              /*bias=*/true) {
    const ChannelMixerConfig channel_mixer{.kind = config.channel_mixer,
                                           .inner_dim = InnerDim(config),
                                           .bias = false,
                                           .tanh_gelu = true};
    for (std::int64_t layer = 0; layer < config.n_layers; ++layer) {
      const ParameterScope scope = LayerScope(parameters, layer);
      norms_.emplace_back(scope.Child("norm"), config.d_model, kNormEps);
      if (!has_channel_mixer_) continue;
      channel_norms_.emplace_back(scope.Child("channel_norm"), config.d_model, kNormEps);
      channel_mixers_.emplace_back(channel_mixer, config.d_model, scope.Child("channel_mixer"));
    }
  }

  BackboneOutput Forward(const at::Tensor& tokens, const BackboneOptions& options) const override {
    BackboneOutput output;
    const auto norm_of = [](const RmsNorm& norm) -> kernels::fused::Norm {
      return {.weight = norm.weight(), .eps = kNormEps};
    };
    const auto embedded = Embed(embedding_, tokens, /*positions=*/{}, /*dropout=*/0,
                                norm_of(norms_.front()), options);
    at::Tensor residual = embedded.stream;
    at::Tensor added;
    at::Tensor added_bias;
    const auto join = [&](const RmsNorm& norm, const kernels::fused::RowSelection* kept = nullptr) {
      const auto joined = kernels::fused::ResidualNorm({.residual = residual,
                                                        .added = added,
                                                        .added_bias = added_bias,
                                                        .norm = norm_of(norm),
                                                        .kept = kept},
                                                       options.path);
      residual = joined.residual;
      added_bias.reset();
      return joined.normalised;
    };
    for (std::int64_t layer = 0; layer < mixers_.size(); ++layer) {
      const auto index = static_cast<std::size_t>(layer);
      // The last mixer returns the chosen tokens alone: of the stream it needs no others either.
      const auto* kept = layer + 1 == mixers_.size() ? options.rows : nullptr;
      const at::Tensor x = layer == 0 ? embedded.normalised : join(norms_[index], kept);
      if (layer == 0 && kept != nullptr) {
        residual = kernels::fused::GatherRows(residual, *kept, options.path);
      }
      const auto mixed = mixers_.Forward(layer, x, options, /*split_bias=*/true, output);
      added = mixed.y;
      added_bias = mixed.bias;
      if (has_channel_mixer_) {
        added = channel_mixers_[index](join(channel_norms_[index]), options.path);
      }
    }
    output.hidden = join(final_norm_);
    output.head = head();
    return output;
  }

  Head head() const override {
    return {.weight = head_.weight(), .bias = head_.bias(), .narrow = head_.Narrow()};
  }

  std::vector<State> InitialState(std::int64_t batch_size) const override {
    return mixers_.InitialState(batch_size);
  }

  StateSize state_size(std::int64_t num_tokens) const override {
    return mixers_.state_size(num_tokens);
  }

 private:
  at::Tensor embedding_;  // [vocab_size, D]
  MixerLayers mixers_;
  std::vector<RmsNorm> norms_;
  bool has_channel_mixer_;
  std::vector<RmsNorm> channel_norms_;
  std::vector<ChannelMixer> channel_mixers_;
  RmsNorm final_norm_;
  Linear head_;
};

MadConfig Parse(const Value& config, const std::string& where) {
  const MadConfig parsed = ConfigFields().Parse(config, where);
  CheckRange(parsed.d_model, 1, 1 << 16, where, "d_model");
  CheckRange(parsed.n_layers, 1, 1024, where, "n_layers");
  CheckRange(parsed.channel_mixer_dim, 0, 1 << 20, where, "channel_mixer_dim");
  return parsed;
}

}  // namespace

void Register(BackboneRegistry& registry) {
  BackboneEntry entry;
  entry.summary = "MAD's language model: pre-norm residual layers, untied head";
  entry.source = "arXiv 2403.17844; athms/mad-lab 0f49a45";
  entry.params = ConfigFields().Describe();
  entry.init_policy = InitPolicy::kMad;
  entry.create = [](const Value& config, const std::string& where, const BackboneContext& context,
                    ParameterSet& parameters) -> std::unique_ptr<Backbone> {
    return std::make_unique<Mad>(Parse(config, where), where, context, parameters);
  };
  entry.resolve = [](const Value& config, const std::string& where, const MixerRegistry& mixers) {
    MadConfig parsed = Parse(config, where);
    parsed.sequence_mixer = ResolveMixer(parsed.sequence_mixer, where + "/sequence_mixer", mixers);
    return ConfigFields().Write(parsed);
  };
  entry.num_layers = [](const Value& config) { return Parse(config, "").n_layers; };
  entry.test_configs = {
      Object{{"d_model", 16},
             {"n_layers", 1},
             {"channel_mixer", "mlp"},
             {"channel_mixer_dim", 24},
             {"sequence_mixer", Object{{"name", "delta_net"}}}},
      Object{{"d_model", 16},
             {"channel_mixer", "identity"},
             {"sequence_mixer", Object{{"name", "hybrid"}}}},
  };
  registry.Add("mad", std::move(entry));
}

}  // namespace mixerbench::models::mad
