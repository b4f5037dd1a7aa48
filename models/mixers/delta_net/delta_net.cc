// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/delta_net/delta_net.h"

#include <memory>
#include <string>
#include <utility>

#include "models/mixer_entry.h"

namespace mixerbench::models::delta_net {
namespace {

const Fields<DeltaNetConfig>& ConfigFields() {
  static const auto fields =
      DeltaRuleFields<DeltaNetConfig>()
          .Add("expand_v", &DeltaNetConfig::expand_v, "value channels per channel of d_model")
          .Add("qk_activation", &DeltaNetConfig::qk_activation, "of queries and keys")
          .Add("qk_norm", &DeltaNetConfig::qk_norm, "of queries and keys after the activation");
  return fields;
}

std::unique_ptr<Mixer> Make(const DeltaNetConfig& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  DeltaRuleLayout layout = SharedDeltaRuleLayout(config, context.d_model, where);
  layout.head_v_dim =
      ExpandedHeadDim(config.expand_v, context.d_model, config.num_heads, where, "expand_v");
  layout.qk_activation = config.qk_activation;
  layout.qk_norm = config.qk_norm;
  return std::make_unique<DeltaRuleMixer>(layout, context.d_model, scope);
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeMixerEntry(ConfigFields(), Make);
  entry.summary = "DeltaNet: a matrix state written by the delta rule, without decay";
  entry.source = "arXiv 2102.11174, 2406.06484; negative eigenvalues 2411.12537";
  entry.test_configs = {
      Object{{"num_heads", 4},
             {"expand_k", 0.5},
             {"expand_v", 2},
             {"conv_size", 0},
             {"allow_neg_eigval", true},
             {"use_output_gate", true},
             {"norm_eps", 1e-6}},
      Object{{"qk_activation", "elu1"}, {"qk_norm", "sum"}},
      Object{{"qk_activation", "identity"}, {"conv_size", 3}},
      Object{{"qk_activation", "relu"}},
  };
  registry.Add("delta_net", std::move(entry));
}

}  // namespace mixerbench::models::delta_net
