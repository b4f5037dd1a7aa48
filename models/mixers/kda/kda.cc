// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/kda/kda.h"

#include <memory>
#include <string>
#include <vector>

#include "kernels/gates/gates.h"
#include "kernels/linear_attention/dplr/dplr.h"
#include "models/blocks/low_rank_core.h"
#include "models/blocks/low_rank_decay.h"
#include "models/blocks/matrix_state_mixer.h"
#include "models/blocks/vector_delta_layout.h"
#include "models/mixer_entry.h"

namespace mixerbench::models::kda {
namespace {

const Fields<KdaConfig>& ConfigFields() {
  using Config = KdaConfig;
  static const auto fields = VectorDeltaFields<Config>().Add(
      "allow_neg_eigval", &Config::allow_neg_eigval, "write strength in (0,2) instead of (0,1)");
  return fields;
}

std::unique_ptr<Mixer> Make(const KdaConfig& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  MatrixLayout layout = VectorDeltaLayout(config, context.d_model, where);
  layout.gate_columns = {layout.output.gate_rank, layout.num_heads};  // decays, write strength
  layout.write_gate = WriteGate::kBeta;
  const LowRankDecay decay(scope, layout.output.gate_rank, layout.num_heads, layout.head_k_dim,
                           config.min_log_decay);
  const auto gates = [=](const std::vector<at::Tensor>& columns, const MixerOptions& options,
                         kernels::RecurrenceArgs& args) {
    args.log_decay = decay(columns[0], options.path);
    args.beta =
        kernels::ComputeDeltaGates(
            {.z = columns[1], .beta_scale = config.allow_neg_eigval ? 2.0 : 1.0}, options.path)
            .beta;
  };
  const auto factors = [](const kernels::RecurrenceArgs& args, Mixed&) {
    return kernels::DeltaRuleAsDplr(args);
  };
  return std::make_unique<MatrixStateMixer>(layout, gates, LowRankCore(factors, layout), context,
                                            scope);
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeMixerEntry(ConfigFields(), Make);
  entry.summary = "Kimi delta attention: the delta rule on a state with one decay per key channel";
  entry.source = "arXiv 2510.26692";
  entry.test_configs = {
      Object{{"num_heads", 1},
             {"num_v_heads", 2},
             {"expand_k", 0.5},
             {"expand_v", 2},
             {"conv_size", 0},
             {"gate_low_rank_dim", 4},
             {"min_log_decay", -5},
             {"allow_neg_eigval", true},
             {"output_gate", "none"},
             {"norm_eps", 1e-6}},
      Object{{"output_gate", "silu"}},
  };
  registry.Add("kda", std::move(entry));
}

}  // namespace mixerbench::models::kda
