// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/delta_net/delta_net.h"

#include <memory>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/silu.h>

#include "models/blocks/delta_rule_gates.h"
#include "models/blocks/dtype.h"
#include "models/blocks/matrix_state_mixer.h"
#include "models/blocks/norms.h"
#include "models/mixer_entry.h"

namespace mixerbench::models::delta_net {
namespace {

const Fields<DeltaNetConfig>& ConfigFields() {
  using Config = DeltaNetConfig;
  static const auto fields =
      MatrixFields<Config>(
          "width of a convolution before the activations of q, k, v; 0: these alone")
          .Add("expand_v", &Config::expand_v, "value channels per channel of d_model")
          .Add("qk_activation", &Config::qk_activation,
               "of queries and keys, a feature map that keeps their channels; values take silu")
          .Add("qk_norm", &Config::qk_norm, "of queries and keys after the activation")
          .Add("allow_neg_eigval", &Config::allow_neg_eigval,
               "write strength in (0,2) instead of (0,1)");
  return fields;
}

at::Tensor Normalise(const at::Tensor& x, QkScaling norm) {
  if (norm == QkScaling::kL2) return L2Norm(x);
  const at::Tensor wide = AtLeastFloat(x);
  return (wide / wide.sum(-1, /*keepdim=*/true)).to(x.scalar_type());
}

std::unique_ptr<Mixer> Make(const DeltaNetConfig& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  MatrixLayout layout = LayoutOf(config, context.d_model, where);
  // Silu of everything and the L2 norm are steps of the convolution; others follow it.
  layout.silu = config.qk_activation == FeatureMapKind::kSilu;
  layout.l2_norm = layout.silu && config.qk_norm == QkScaling::kL2;
  const FeatureMap activation =
      ChannelFeatureMap(config.qk_activation, layout.head_k_dim, scope, where + "/qk_activation");
  const GateFunction delta_gates =
      MakeDeltaRuleGates(layout, /*has_decay=*/false, config.allow_neg_eigval, scope);
  const auto gates = [=](const std::vector<at::Tensor>& columns, const MixerOptions& options,
                         kernels::RecurrenceArgs& args) {
    if (!layout.silu) {
      args.q = activation(args.q, options.path);
      args.k = activation(args.k, options.path);
      args.v = at::silu(args.v);
    }
    if (!layout.l2_norm) {
      args.q = Normalise(args.q, config.qk_norm);
      args.k = Normalise(args.k, config.qk_norm);
    }
    delta_gates(columns, options, args);
  };
  return std::make_unique<MatrixStateMixer>(layout, gates, DeltaRuleCore(layout), context, scope);
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
