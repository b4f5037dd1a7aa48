// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/gla/gla.h"

#include <memory>
#include <string>
#include <vector>

#include "kernels/gates/gates.h"
#include "kernels/linear_attention/gla/gla.h"
#include "models/blocks/grouped_queries.h"
#include "models/blocks/matrix_state_mixer.h"
#include "models/mixer_entry.h"

namespace mixerbench::models::gla {
namespace {

const Fields<GlaConfig>& ConfigFields() {
  static const auto fields =
      MatrixFields<GlaConfig>()
          .Add("num_kv_heads", &GlaConfig::num_kv_heads,
               "heads of keys, values, decays and states; divides num_heads; 0: num_heads")
          .Add("expand_v", &GlaConfig::expand_v, "value channels per channel of d_model")
          .Add("feature_map", &GlaConfig::feature_map,
               "of queries and keys, one that keeps their number of channels")
          .Add("gate_low_rank_dim", &GlaConfig::gate_low_rank_dim,
               "width between the two projections of the decay logits")
          .Add("gate_logit_normalizer", &GlaConfig::gate_logit_normalizer,
               "log decay = log sigmoid(logit) / this")
          .Add("min_log_decay", &GlaConfig::min_log_decay,
               "lower bound of the log decay, negative; 0: none")
          .AddLater("init", &GlaConfig::init,
                    "of projections, where the backbone's policy keeps what mixers ask for");
  return fields;
}

std::unique_ptr<Mixer> Make(const GlaConfig& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  CheckRange(config.gate_low_rank_dim, 1, 4096, where, "gate_low_rank_dim");
  CheckPositive(config.gate_logit_normalizer, where, "gate_logit_normalizer");
  if (!(config.min_log_decay <= 0)) {
    throw ConfigError(where + "/min_log_decay", "must be negative, or 0 for no bound");
  }
  MatrixLayout layout = LayoutOf(config, context.d_model, where);
  GroupQueries(config.num_kv_heads, where, layout);
  layout.gate_columns = {config.gate_low_rank_dim};
  layout.init = layout.output.projection_init = config.init;
  const FeatureMap map =
      ChannelFeatureMap(config.feature_map, layout.head_k_dim, scope, where + "/feature_map");
  const Linear decay_proj(scope.Child("decay_proj"), config.gate_low_rank_dim, layout.key_dim(),
                          /*bias=*/true, ParameterRole::kLinearWeight, config.init,
                          /*bias_init=*/Init::Constant(0));
  const auto gates = [=](const std::vector<at::Tensor>& columns, const MixerOptions& options,
                         kernels::RecurrenceArgs& args) {
    args.q = map(args.q, options.path);
    args.k = map(args.k, options.path);
    args.log_decay =
        kernels::LogSigmoidDecay(decay_proj(columns[0], options.path), config.gate_logit_normalizer,
                                 config.min_log_decay, options.path)
            .view(args.k.sizes());
  };
  return std::make_unique<MatrixStateMixer>(layout, gates, GroupedState(kernels::Gla, layout),
                                            context, scope);
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeMixerEntry(ConfigFields(), Make);
  entry.summary = "gated linear attention: a matrix state with one decay per key channel";
  entry.source = "arXiv 2312.06635";
  entry.test_configs = {
      Object{{"num_heads", 4},
             {"expand_k", 1},
             {"expand_v", 2},
             {"gate_low_rank_dim", 4},
             {"gate_logit_normalizer", 1},
             {"conv_size", 4},
             {"output_gate", "none"},
             {"norm_eps", 1e-6}},
      Object{{"gate_logit_normalizer", 0.1}, {"min_log_decay", -5}, {"output_gate", "sigmoid"}},
      Object{{"num_heads", 4}, {"num_kv_heads", 2}, {"conv_size", 3}, {"feature_map", "silu"}},
      Object{{"init", "xavier"}},
  };
  registry.Add("gla", std::move(entry));
}

}  // namespace mixerbench::models::gla
