// SPDX-License-Identifier: Apache-2.0
#include "models/backbones/s4_sequence/s4_sequence.h"

#include <memory>
#include <string>
#include <utility>

#include "base/fields.h"
#include "models/backbone_entry.h"
#include "models/blocks/config_checks.h"
#include "models/blocks/residual_model.h"

namespace mixerbench::models::s4_sequence {
namespace {

const Fields<S4SequenceConfig>& ConfigFields() {
  using Config = S4SequenceConfig;
  static const auto fields =
      Fields<Config>()
          .Add("d_model", &Config::d_model, "width of the residual stream")
          .Add("n_layers", &Config::n_layers, "layers")
          .Add("sequence_mixer", &Config::sequence_mixer, "mixer over time, with its activation")
          .Add("norm", &Config::norm, "before every layer and the decoder")
          .Add("dropout", &Config::dropout, "of what joins the residual stream, in training")
          .Add("init_policy", &Config::init_policy, "how weights start");
  return fields;
}

std::unique_ptr<Backbone> Make(const S4SequenceConfig& config, const std::string& where,
                               const BackboneContext& context, ParameterSet& parameters) {
  const ResidualLayersConfig layers = {.vocab_size = context.vocab_size,
                                       .d_model = config.d_model,
                                       .n_layers = config.n_layers,
                                       .sequence_mixer = config.sequence_mixer,
                                       .norm = config.norm,
                                       .final_norm = config.norm,
                                       .dropout = config.dropout};
  return std::make_unique<ResidualModel>(layers, HeadKind::kUntiedWithBias, where, context,
                                         parameters);
}

S4SequenceConfig Parse(const Value& config, const std::string& where) {
  const S4SequenceConfig parsed = ConfigFields().Parse(config, where);
  CheckRange(parsed.d_model, 1, 1 << 16, where, "d_model");
  CheckRange(parsed.n_layers, 1, 1024, where, "n_layers");
  CheckDropout(parsed.dropout, where, "dropout");
  return parsed;
}

}  // namespace

void Register(BackboneRegistry& registry) {
  BackboneEntry entry = MakeBackboneEntry(ConfigFields(), Parse, Make);
  entry.summary = "S4's sequence model: an encoder, residual layers, a decoder";
  entry.source = "arXiv 2111.00396; state-spaces/s4 e757cef; SelectLTI";
  entry.init_policy = [](const Value& config) { return Parse(config, "").init_policy; };
  entry.test_configs = {
      Object{{"d_model", 16},
             {"n_layers", 1},
             {"norm", "none"},
             {"dropout", 0.2},
             {"init_policy", "mamba"},
             {"sequence_mixer", Object{{"name", "s5"}}}},
  };
  registry.Add("s4_sequence", std::move(entry));
}

}  // namespace mixerbench::models::s4_sequence
