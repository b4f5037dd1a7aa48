// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/sse/sse.h"

#include <memory>
#include <string>

#include <ATen/TensorOperators.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softmax.h>

#include "base/error.h"
#include "kernels/gates/gates.h"
#include "kernels/linear_attention/gla/gla.h"
#include "models/blocks/dtype.h"
#include "models/mixer_entry.h"

namespace mixerbench::models::sse {
namespace {

const Fields<SseConfig>& ConfigFields() {
  static const auto fields =
      StateExpansionFields<SseConfig>()
          .Add("expand_v", &SseConfig::expand_v, "value channels per channel of d_model")
          .Add("gate_low_rank_dim", &SseConfig::gate_low_rank_dim,
               "width between the two projections of the decay logits")
          .Add("gate_logit_normalizer", &SseConfig::gate_logit_normalizer,
               "log decay = log sigmoid(logit) / this")
          .Add("q_activation", &SseConfig::q_activation, "of the queries, per head")
          .Add("k_activation", &SseConfig::k_activation, "of the keys, per head");
  return fields;
}

at::Tensor Activate(const at::Tensor& x, SseActivation activation) {
  if (activation == SseActivation::kSilu) return at::silu(x);
  return at::softmax(AtLeastFloat(x), -1).to(x.scalar_type());
}

BranchFunction MakeBranch(const SseConfig& config, std::int64_t key_dim,
                          const ParameterScope& scope) {
  const Linear decay_proj(scope.Child("decay_proj"), config.gate_low_rank_dim, key_dim,
                          /*bias=*/true);
  return
      [=](const at::Tensor& columns, const MixerOptions& options, kernels::RecurrenceArgs& args) {
        args.q = Activate(args.q, config.q_activation);
        args.k = Activate(args.k, config.k_activation);
        args.log_decay =
            kernels::LogSigmoidDecay(decay_proj(columns, options.path),
                                     config.gate_logit_normalizer, /*floor=*/0, options.path)
                .view(args.k.sizes());
      };
}

std::unique_ptr<Mixer> Make(const SseConfig& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  CheckRange(config.gate_low_rank_dim, 1, 4096, where, "gate_low_rank_dim");
  CheckPositive(config.gate_logit_normalizer, where, "gate_logit_normalizer");
  if (config.write_gate == RouterWrite::kBeta) {
    throw ConfigError(where + "/write_gate", "'beta' needs a delta rule: 'value' or 'none'");
  }
  StateExpansionLayout layout = StateExpansionLayoutOf(
      config, context.d_model,
      ExpandedHeadDim(config.expand_v, context.d_model, config.num_heads, where, "expand_v"),
      where);
  layout.gate_columns = config.gate_low_rank_dim;
  const BranchFunction partitions = MakeBranch(config, layout.key_dim(), scope);
  BranchFunction shared;
  if (config.use_shared) shared = MakeBranch(config, layout.key_dim(), scope.Child("shared"));
  return std::make_unique<StateExpansion>(layout, partitions, shared, kernels::Gla, context, scope);
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeMixerEntry(ConfigFields(), Make);
  entry.summary =
      "sparse state expansion: gated linear attention in routed partitions of the state";
  entry.source = "arXiv 2507.16577";
  entry.test_configs = {
      Object{{"num_heads", 4},
             {"expand_k", 0.5},
             {"expand_v", 2},
             {"num_partitions", 5},
             {"top_k", 2},
             {"num_readers", 4},
             {"lora_rank", 3},
             {"gate_low_rank_dim", 4},
             {"gate_logit_normalizer", 1},
             {"conv_size", 4},
             {"implementation", "masking"},
             {"norm_eps", 1e-6}},
      Object{{"use_shared", false},
             {"top_k", 3},
             {"num_readers", 1},
             {"q_activation", "softmax"},
             {"k_activation", "silu"},
             {"write_gate", "none"},
             {"output_gate", "none"}},
      Object{{"implementation", "loop"}, {"output_gate", "sigmoid"}, {"num_partitions", 2}},
      Object{{"num_readers", 3}, {"read_gate", false}},
  };
  registry.Add("sse", std::move(entry));
}

}  // namespace mixerbench::models::sse
