// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/gated_delta_net/gated_delta_net.h"

#include <memory>
#include <string>
#include <utility>

#include "models/blocks/config_checks.h"
#include "models/blocks/delta_rule_mixer.h"
#include "models/mixer_entry.h"

namespace mixerbench::models::gated_delta_net {
namespace {

const Fields<GatedDeltaNetConfig>& ConfigFields() {
  using Config = GatedDeltaNetConfig;
  static const auto fields =
      Fields<Config>()
          .Add("num_heads", &Config::num_heads, "heads of queries and keys")
          .Add("num_v_heads", &Config::num_v_heads,
               "heads of values, states and gates, a multiple of num_heads; 0: num_heads")
          .Add("expand_k", &Config::expand_k, "key channels per channel of d_model")
          .Add("expand_v", &Config::expand_v, "value channels of a head per key channel")
          .Add("conv_size", &Config::conv_size, "width of the convolution; 0: none")
          .Add("allow_neg_eigval", &Config::allow_neg_eigval,
               "write strength in (0,2) instead of (0,1)")
          .Add("use_output_gate", &Config::use_output_gate,
               "silu gate after the norm of each head's output")
          .Add("norm_eps", &Config::norm_eps, "eps of that norm");
  return fields;
}

std::unique_ptr<Mixer> Make(const GatedDeltaNetConfig& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  CheckRange(config.num_heads, 1, context.d_model, where, "num_heads");
  CheckRange(config.conv_size, 0, 64, where, "conv_size");
  DeltaRuleLayout layout;
  layout.num_heads = config.num_heads;
  layout.num_v_heads = config.num_v_heads == 0 ? config.num_heads : config.num_v_heads;
  if (layout.num_v_heads % layout.num_heads != 0) {
    throw ConfigError(where + "/num_v_heads", std::to_string(config.num_v_heads) +
                                                  " is not a multiple of num_heads " +
                                                  std::to_string(config.num_heads));
  }
  layout.head_k_dim =
      ExpandedHeadDim(config.expand_k, context.d_model, config.num_heads, where, "expand_k");
  layout.head_v_dim = ExpandedHeadDim(config.expand_v, layout.head_k_dim, 1, where, "expand_v");
  layout.conv_size = config.conv_size;
  layout.use_decay = true;
  layout.output_gate = config.use_output_gate ? OutputGate::kSilu : OutputGate::kNone;
  layout.allow_neg_eigval = config.allow_neg_eigval;
  layout.norm_eps = config.norm_eps;
  return std::make_unique<DeltaRuleMixer>(layout, context.d_model, scope);
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
