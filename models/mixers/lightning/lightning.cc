// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/lightning/lightning.h"

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>

#include "kernels/linear_attention/simple_gla/simple_gla.h"
#include "models/blocks/matrix_state_mixer.h"
#include "models/mixer_entry.h"

namespace mixerbench::models::lightning {
namespace {

const Fields<LightningConfig>& ConfigFields() {
  static const auto fields =
      MatrixFields<LightningConfig>()
          .Add("expand_v", &LightningConfig::expand_v, "value channels per channel of d_model")
          .Add("max_decay", &LightningConfig::max_decay,
               "head h of H loses this times h / H a token in the first layer, less in later ones");
  return fields;
}

// -max_decay (h / H) (1 - l / L), [H] in float64.
at::Tensor LogDecays(const LightningConfig& config, const MixerContext& context) {
  const double depth =
      static_cast<double>(context.layer_index) / static_cast<double>(context.num_layers);
  const double slope = config.max_decay * (1 - depth) / static_cast<double>(config.num_heads);
  return at::arange(config.num_heads, at::TensorOptions(at::kDouble)) * -slope;
}

std::unique_ptr<Mixer> Make(const LightningConfig& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  const MatrixLayout layout = LayoutOf(config, context.d_model, where);
  CheckPositive(config.max_decay, where, "max_decay");
  const auto gates = [log_decays = LogDecays(config, context).to(scope.special_options())](
                         const std::vector<at::Tensor>&, const MixerOptions&,
                         kernels::RecurrenceArgs& args) {
    args.log_decay = log_decays.expand(args.k.sizes().slice(0, 3));
  };
  return std::make_unique<MatrixStateMixer>(layout, gates, OneState(kernels::SimpleGla, layout),
                                            context, scope);
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeMixerEntry(ConfigFields(), Make);
  entry.summary = "lightning attention: a constant decay by head and layer";
  entry.source = "arXiv 2405.17381; fla-org/flash-linear-attention lightning_attn";
  entry.test_configs = {
      Object{{"num_heads", 4},
             {"expand_k", 0.5},
             {"expand_v", 2},
             {"max_decay", 1},
             {"conv_size", 4},
             {"output_gate", "none"},
             {"norm_eps", 1e-6}},
      Object{{"output_gate", "sigmoid"}},
  };
  registry.Add("lightning", std::move(entry));
}

}  // namespace mixerbench::models::lightning
