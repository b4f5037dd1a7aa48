// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/gated_delta_net/gated_delta_net.h"

#include <memory>
#include <string>

#include "models/blocks/delta_rule_gates.h"
#include "models/blocks/matrix_state_mixer.h"
#include "models/blocks/value_heads.h"
#include "models/mixer_entry.h"

namespace mixerbench::models::gated_delta_net {
namespace {

const Fields<GatedDeltaNetConfig>& ConfigFields() {
  using Config = GatedDeltaNetConfig;
  static const auto fields = WithValueHeads(MatrixFields<Config>(kConvBeforeSilu))
                                 .Add("allow_neg_eigval", &Config::allow_neg_eigval,
                                      "write strength in (0,2) instead of (0,1)");
  return fields;
}

std::unique_ptr<Mixer> Make(const GatedDeltaNetConfig& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  MatrixLayout layout = KeyLayoutOf(config, context.d_model, where);
  SetValueHeads(config, where, layout);
  layout.silu = true;
  layout.l2_norm = true;
  const GateFunction gates =
      MakeDeltaRuleGates(layout, /*has_decay=*/true, config.allow_neg_eigval, scope);
  return std::make_unique<MatrixStateMixer>(layout, gates, DeltaRuleCore(layout), context, scope);
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeMixerEntry(ConfigFields(), Make);
  entry.summary = "Gated DeltaNet: the delta rule on a state that decays by one factor per head";
  entry.source = "arXiv 2412.06464";
  entry.test_configs = {
      Object{{"num_heads", 1},
             {"num_v_heads", 2},
             {"expand_k", 0.5},
             {"expand_v", 1},
             {"conv_size", 0},
             {"allow_neg_eigval", true},
             {"use_output_gate", true},
             {"norm_eps", 1e-6}},
  };
  registry.Add("gated_delta_net", std::move(entry));
}

}  // namespace mixerbench::models::gated_delta_net
