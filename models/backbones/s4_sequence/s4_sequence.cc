// SPDX-License-Identifier: Apache-2.0
#include "models/backbones/s4_sequence/s4_sequence.h"

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/fields.h"
#include "models/backbone.h"
#include "models/blocks/config_checks.h"
#include "models/blocks/linear.h"

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

class S4Sequence final : public Backbone {
 public:
  S4Sequence(const S4SequenceConfig& config, const std::string& where,
             const BackboneContext& context, ParameterSet& parameters)
      : layers_({.vocab_size = context.vocab_size,
                 .d_model = config.d_model,
                 .n_layers = config.n_layers,
                 .sequence_mixer = config.sequence_mixer,
                 .norm = config.norm,
                 .final_norm = config.norm,
                 .dropout = config.dropout},
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

S4SequenceConfig Parse(const Value& config, const std::string& where) {
  const S4SequenceConfig parsed = ConfigFields().Parse(config, where);
  CheckRange(parsed.d_model, 1, 1 << 16, where, "d_model");
  CheckRange(parsed.n_layers, 1, 1024, where, "n_layers");
  CheckDropout(parsed.dropout, where, "dropout");
  return parsed;
}

}  // namespace

void Register(BackboneRegistry& registry) {
  BackboneEntry entry;
  entry.summary = "S4's sequence model: an encoder, residual layers, a decoder";
  entry.source = "arXiv 2111.00396; state-spaces/s4 e757cef; SelectLTI";
  entry.params = ConfigFields().Describe();
  entry.init_policy = [](const Value& config) { return Parse(config, "").init_policy; };
  entry.create = [](const Value& config, const std::string& where, const BackboneContext& context,
                    ParameterSet& parameters) -> std::unique_ptr<Backbone> {
    return std::make_unique<S4Sequence>(Parse(config, where), where, context, parameters);
  };
  entry.resolve = [](const Value& config, const std::string& where, const MixerRegistry& mixers) {
    S4SequenceConfig parsed = Parse(config, where);
    parsed.sequence_mixer = ResolveMixer(parsed.sequence_mixer, where + "/sequence_mixer", mixers);
    return ConfigFields().Write(parsed);
  };
  entry.num_layers = [](const Value& config) { return Parse(config, "").n_layers; };
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
