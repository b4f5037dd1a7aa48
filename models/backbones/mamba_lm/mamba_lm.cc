// SPDX-License-Identifier: Apache-2.0
#include "models/backbones/mamba_lm/mamba_lm.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/fields.h"
#include "models/backbone_entry.h"
#include "models/blocks/config_checks.h"
#include "models/blocks/residual_model.h"

namespace mixerbench::models::mamba_lm {
namespace {

const Fields<MambaLmConfig>& ConfigFields() {
  using Config = MambaLmConfig;
  static const auto fields =
      Fields<Config>()
          .Add("d_model", &Config::d_model, "width of the residual stream")
          .Add("n_layers", &Config::n_layers, "blocks")
          .Add("sequence_mixer", &Config::sequence_mixer, "mixer over time")
          .Add("channel_mixer", &Config::channel_mixer, "mixer over channels of every block")
          .Add("channel_mixer_dim", &Config::channel_mixer_dim,
               "its inner width; 0: 4 d_model for mlp and rwkv7, 8/3 d_model in steps of "
               "channel_mixer_step for swiglu, 7/2 d_model in steps of 32 for rwkv")
          .AddLater("channel_mixer_step", &Config::channel_mixer_step,
                    "swiglu's width is a multiple of it; 128 in Mamba's gated MLP")
          .Add("final_norm", &Config::final_norm, "before the head; zoology has LayerNorm there")
          .Add("residual_in_fp32", &Config::residual_in_fp32,
               "the residual stream in fp32, whatever the layers compute in")
          .Add("tied_head", &Config::tied_head, "the embedding is the head's weight too")
          .Add("vocab_multiple", &Config::vocab_multiple,
               "the vocabulary is filled up to a multiple of this");
  return fields;
}

std::unique_ptr<Backbone> Make(const MambaLmConfig& config, const std::string& where,
                               const BackboneContext& context, ParameterSet& parameters) {
  const std::int64_t multiple = config.vocab_multiple;
  const ResidualLayersConfig layers = {
      .vocab_size = (context.vocab_size + multiple - 1) / multiple * multiple,
      .d_model = config.d_model,
      .n_layers = config.n_layers,
      .sequence_mixer = config.sequence_mixer,
      .channel_mixer = MadChannelMixer(config.channel_mixer, config.channel_mixer_dim,
                                       config.d_model, config.channel_mixer_step),
      .final_norm = config.final_norm,
      .fp32_stream = config.residual_in_fp32};
  return std::make_unique<ResidualModel>(
      layers, config.tied_head ? HeadKind::kTied : HeadKind::kUntied, where, context, parameters);
}

MambaLmConfig Parse(const Value& config, const std::string& where) {
  const MambaLmConfig parsed = ConfigFields().Parse(config, where);
  CheckRange(parsed.d_model, 1, 1 << 16, where, "d_model");
  CheckRange(parsed.n_layers, 1, 1024, where, "n_layers");
  CheckRange(parsed.channel_mixer_dim, 0, 1 << 20, where, "channel_mixer_dim");
  CheckRange(parsed.channel_mixer_step, 1, 1 << 16, where, "channel_mixer_step");
  const bool has_steps =
      parsed.channel_mixer == ChannelMixerKind::kSwiglu && parsed.channel_mixer_dim == 0;
  if (!has_steps && parsed.channel_mixer_step != kMadSwigluStep) {
    throw ConfigError(where + "/channel_mixer_step",
                      "is for channel_mixer swiglu with channel_mixer_dim 0; leave it out");
  }
  CheckRange(parsed.vocab_multiple, 1, 1 << 16, where, "vocab_multiple");
  return parsed;
}

}  // namespace

void Register(BackboneRegistry& registry) {
  BackboneEntry entry = MakeBackboneEntry(ConfigFields(), Parse, Make);
  entry.summary = "Mamba's language model: RMSNorm and mixer in every block, tied head";
  entry.source = "arXiv 2312.00752; state-spaces/mamba; HazyResearch/zoology d88d6f5";
  entry.init_policy = [](const Value&) { return InitPolicy::kMamba; };
  // Branches that join the stream.
  entry.num_layers = [](const Value& config) {
    const MambaLmConfig parsed = Parse(config, "");
    return parsed.n_layers * (parsed.channel_mixer == ChannelMixerKind::kIdentity ? 1 : 2);
  };
  entry.test_configs = {
      Object{{"d_model", 16},
             {"n_layers", 1},
             {"channel_mixer", "swiglu"},
             {"channel_mixer_dim", 24},
             {"final_norm", "layer"},
             {"residual_in_fp32", false},
             {"tied_head", false},
             {"vocab_multiple", 1},
             {"sequence_mixer", Object{{"name", "mamba2"}}}},
      Object{{"d_model", 16}, {"channel_mixer", "swiglu"}, {"channel_mixer_step", 128}},
  };
  registry.Add("mamba_lm", std::move(entry));
}

}  // namespace mixerbench::models::mamba_lm
