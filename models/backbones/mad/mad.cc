// SPDX-License-Identifier: Apache-2.0
#include "models/backbones/mad/mad.h"

#include <memory>
#include <string>
#include <utility>

#include "base/fields.h"
#include "models/backbone_entry.h"
#include "models/blocks/config_checks.h"
#include "models/blocks/residual_model.h"

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

std::unique_ptr<Backbone> Make(const MadConfig& config, const std::string& where,
                               const BackboneContext& context, ParameterSet& parameters) {
  const ResidualLayersConfig layers = {
      .vocab_size = context.vocab_size,
      .d_model = config.d_model,
      .n_layers = config.n_layers,
      .sequence_mixer = config.sequence_mixer,
      .channel_mixer =
          MadChannelMixer(config.channel_mixer, config.channel_mixer_dim, config.d_model),
      .norm = config.norm,
      .final_norm = config.norm,
      .fp32_stream = true};
  return std::make_unique<ResidualModel>(layers, HeadKind::kUntiedWithBias, where, context,
                                         parameters);
}

MadConfig Parse(const Value& config, const std::string& where) {
  const MadConfig parsed = ConfigFields().Parse(config, where);
  CheckRange(parsed.d_model, 1, 1 << 16, where, "d_model");
  CheckRange(parsed.n_layers, 1, 1024, where, "n_layers");
  CheckRange(parsed.channel_mixer_dim, 0, 1 << 20, where, "channel_mixer_dim");
  return parsed;
}

}  // namespace

void Register(BackboneRegistry& registry) {
  BackboneEntry entry = MakeBackboneEntry(ConfigFields(), Parse, Make);
  entry.summary = "MAD's language model: pre-norm residual layers, untied head";
  entry.source = "arXiv 2403.17844; athms/mad-lab 0f49a45";
  entry.init_policy = [](const Value& config) { return Parse(config, "").init_policy; };
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
