// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/log_linear_gdn/log_linear_gdn.h"

#include <memory>
#include <string>
#include <vector>

#include <ATen/ops/cat.h>

#include "models/blocks/delta_rule_gates.h"
#include "models/blocks/level_states.h"
#include "models/blocks/matrix_state_mixer.h"
#include "models/blocks/value_heads.h"
#include "models/mixer_entry.h"

namespace mixerbench::models::log_linear_gdn {
namespace {

const Fields<LogLinearGdnConfig>& ConfigFields() {
  using Config = LogLinearGdnConfig;
  static const auto fields =
      WithValueHeads(MatrixFields<Config>(kConvBeforeSilu))
          .Add("num_levels", &Config::num_levels,
               "levels, for 2^(num_levels-1) tokens; 0: for the longest input")
          .Add("allow_neg_eigval", &Config::allow_neg_eigval,
               "write strength in (0,2) instead of (0,1)");
  return fields;
}

std::unique_ptr<Mixer> Make(const LogLinearGdnConfig& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  const std::int64_t num_levels = NumLevels(config.num_levels, where, context);
  MatrixLayout layout = KeyLayoutOf(config, context.d_model, where);
  SetValueHeads(config, where, layout);
  layout.silu = true;
  layout.l2_norm = true;
  const GateFunction delta_gates =
      MakeDeltaRuleGates(layout, /*has_decay=*/true, config.allow_neg_eigval, scope);
  layout.gate_columns.push_back(layout.num_heads * num_levels);
  layout.write_gate = WriteGate::kOwn;
  const auto gates = [delta_gates](const std::vector<at::Tensor>& columns,
                                   const MixerOptions& options, kernels::RecurrenceArgs& args) {
    delta_gates(columns, options, args);
    args.beta = at::cat({args.beta, columns[1].to(args.beta.scalar_type())}, -1);
  };
  return std::make_unique<MatrixStateMixer>(
      layout, gates, LevelStates(LevelRule::kDelta, num_levels, layout, scope), context, scope,
      MatrixProjection{
          .run = {},  // that of the layout
          .add_initial_state = [](std::int64_t, State& state) { AddLevelPosition(state); }});
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeMixerEntry(ConfigFields(), Make);
  entry.summary =
      "log-linear Gated DeltaNet: a delta rule whose past is split into levels with weights";
  entry.source = "arXiv 2506.04761, 2412.06464";
  entry.test_configs = {
      Object{{"num_heads", 1},
             {"num_v_heads", 2},
             {"expand_k", 0.5},
             {"expand_v", 2},
             {"conv_size", 0},
             {"num_levels", 10},
             {"use_output_gate", false},
             {"norm_eps", 1e-6}},
      Object{{"allow_neg_eigval", true}},
  };
  registry.Add("log_linear_gdn", std::move(entry));
}

}  // namespace mixerbench::models::log_linear_gdn
