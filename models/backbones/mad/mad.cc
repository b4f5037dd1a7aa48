// SPDX-License-Identifier: Apache-2.0
#include "models/backbones/mad/mad.h"

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/fields.h"
#include "models/backbone.h"
#include "models/blocks/config_checks.h"
#include "models/blocks/linear.h"

namespace mixerbench::models::mad {
namespace {

const Fields<MadConfig>& ConfigFields() {
  static const auto fields =
      Fields<MadConfig>()
          .Add("d_model", &MadConfig::d_model, "width of the residual stream")
          .Add("n_layers", &MadConfig::n_layers,
               "pairs of a mixer over time and a mixer over channels")
          .Add("sequence_mixer", &MadConfig::sequence_mixer, "mixer over time")
          .Add("channel_mixer", &MadConfig::channel_mixer, "mixer over channels")
          .Add("channel_mixer_dim", &MadConfig::channel_mixer_dim,
               "its inner width; 0: 4 d_model for mlp and rwkv7, 8/3 d_model in steps of 16 for "
               "swiglu, 7/2 d_model in steps of 32 for rwkv")
          .Add("norm", &MadConfig::norm, "before every mixer and the head")
          .Add("init_policy", &MadConfig::init_policy, "how weights start");
  return fields;
}

class Mad final : public Backbone {
 public:
  Mad(const MadConfig& config, const std::string& where, const BackboneContext& context,
      ParameterSet& parameters)
      : layers_({.vocab_size = context.vocab_size,
                 .d_model = config.d_model,
                 .n_layers = config.n_layers,
                 .sequence_mixer = config.sequence_mixer,
                 .channel_mixer = MadChannelMixer(config.channel_mixer, config.channel_mixer_dim,
                                                  config.d_model),
                 .norm = config.norm,
                 .final_norm = config.norm},
                where, context, parameters),
        head_(ParameterScope(parameters, "head."), config.d_model, context.vocab_size,
              /*bias=*/true) {}

  BackboneOutput Forward(const at::Tensor& tokens, const BackboneOptions& options) const override {
    BackboneOutput output;
    output.hidden = layers_(tokens, options, output).hidden;
    output.head = head();
    return output;
  }

  Head head() const override {
    return {.weight = head_.weight(), .bias = head_.bias(), .narrow = head_.Narrow()};
  }

  State InitialState(std::int64_t batch_size) const override {
    return layers_.InitialState(batch_size);
  }

  std::map<std::string, double> losses() const override { return layers_.losses(); }

 private:
  ResidualLayers layers_;
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
  entry.init_policy = [](const Value& config) { return Parse(config, "").init_policy; };
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
             {"norm", "layer"},
             {"sequence_mixer", Object{{"name", "delta_net"}}}},
      Object{{"d_model", 16},
             {"channel_mixer", "identity"},
             {"norm", "none"},
             {"init_policy", "mad_reset"},
             {"sequence_mixer", Object{{"name", "hybrid"}}}},
      Object{{"d_model", 16},
             {"channel_mixer", "rwkv"},
             {"sequence_mixer", Object{{"name", "rwkv5"}}}},
  };
  registry.Add("mad", std::move(entry));
}

}  // namespace mixerbench::models::mad
