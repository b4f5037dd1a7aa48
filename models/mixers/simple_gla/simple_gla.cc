// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/simple_gla/simple_gla.h"

#include <memory>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>

#include "kernels/gates/gates.h"
#include "kernels/linear_attention/simple_gla/simple_gla.h"
#include "models/blocks/dtype.h"
#include "models/blocks/matrix_state_mixer.h"
#include "models/mixer_entry.h"

namespace mixerbench::models::simple_gla {
namespace {

const Fields<SimpleGlaConfig>& ConfigFields() {
  using Config = SimpleGlaConfig;
  static const auto fields =
      MatrixFields<Config>()
          .Add("expand_v", &Config::expand_v, "value channels per channel of d_model")
          .Add("gate_logit_normalizer", &Config::gate_logit_normalizer,
               "log decay = log sigmoid(logit) / this");
  return fields;
}

std::unique_ptr<Mixer> Make(const SimpleGlaConfig& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  CheckPositive(config.gate_logit_normalizer, where, "gate_logit_normalizer");
  MatrixLayout layout = LayoutOf(config, context.d_model, where);
  layout.gate_columns = {config.num_heads};
  const at::Tensor decay_bias =
      scope.Add("decay_bias", {config.num_heads}, ParameterRole::kLinearBias, Init::Constant(0));
  const auto gates = [=](const std::vector<at::Tensor>& columns, const MixerOptions& options,
                         kernels::RecurrenceArgs& args) {
    args.log_decay = kernels::LogSigmoidDecay(AtLeastFloat(columns[0]) + decay_bias,
                                              config.gate_logit_normalizer, 0, options.path);
  };
  return std::make_unique<MatrixStateMixer>(layout, gates, OneState(kernels::SimpleGla, layout),
                                            context, scope);
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeMixerEntry(ConfigFields(), Make);
  entry.summary = "gated linear attention with one data-dependent decay per head";
  entry.source = "arXiv 2312.06635 section 3; fla-org/flash-linear-attention simple_gla";
  entry.test_configs = {
      Object{{"num_heads", 4},
             {"expand_k", 0.5},
             {"expand_v", 2},
             {"gate_logit_normalizer", 1},
             {"conv_size", 0},
             {"output_gate", "none"},
             {"norm_eps", 1e-6}},
      Object{{"gate_logit_normalizer", 0.1}, {"output_gate", "sigmoid"}},
  };
  registry.Add("simple_gla", std::move(entry));
}

}  // namespace mixerbench::models::simple_gla
