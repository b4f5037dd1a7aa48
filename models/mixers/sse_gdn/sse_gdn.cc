// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/sse_gdn/sse_gdn.h"

#include <memory>
#include <string>

#include <ATen/ops/silu.h>

#include "kernels/gates/gates.h"
#include "kernels/linear_attention/delta_rule/delta_rule.h"
#include "models/blocks/decay.h"
#include "models/blocks/value_heads.h"
#include "models/mixer_entry.h"

namespace mixerbench::models::sse_gdn {
namespace {

const Fields<SseGdnConfig>& ConfigFields() {
  using Config = SseGdnConfig;
  static const auto fields = WithValueHeads(StateExpansionFields<Config>())
                                 .Add("allow_neg_eigval", &Config::allow_neg_eigval,
                                      "write strength in (0,2) instead of (0,1)");
  return fields;
}

BranchFunction MakeBranch(const SseGdnConfig& config, std::int64_t num_heads,
                          const ParameterScope& scope) {
  const SoftplusDecay decay(scope, num_heads);
  return
      [=](const at::Tensor& columns, const MixerOptions& options, kernels::RecurrenceArgs& args) {
        args.q = L2Norm(at::silu(args.q));
        args.k = L2Norm(at::silu(args.k));
        const auto gates =
            kernels::ComputeDeltaGates({.z = columns,
                                        .beta_scale = config.allow_neg_eigval ? 2.0 : 1.0,
                                        .A_log = decay.A_log,
                                        .dt_bias = decay.dt_bias},
                                       options.path);
        args.beta = gates.beta;
        args.log_decay = gates.log_decay;
      };
}

std::unique_ptr<Mixer> Make(const SseGdnConfig& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  CheckRange(config.num_heads, 1, context.d_model, where, "num_heads");
  const std::int64_t head_k_dim =
      ExpandedHeadDim(config.expand_k, context.d_model, config.num_heads, where, "expand_k");
  StateExpansionLayout layout = StateExpansionLayoutOf(
      config, context.d_model, ExpandedHeadDim(config.expand_v, head_k_dim, 1, where, "expand_v"),
      where);
  layout.num_heads = NumValueHeads(config, where);
  layout.gate_columns = 2 * layout.num_heads;
  const BranchFunction partitions = MakeBranch(config, layout.num_heads, scope);
  BranchFunction shared;
  if (config.use_shared) shared = MakeBranch(config, layout.num_heads, scope.Child("shared"));
  return std::make_unique<StateExpansion>(layout, partitions, shared, kernels::DeltaRule, context,
                                          scope);
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeMixerEntry(ConfigFields(), Make);
  entry.summary = "sparse state expansion: Gated DeltaNet in routed partitions of the state";
  entry.source = "arXiv 2507.16577";
  entry.test_configs = {
      Object{{"num_heads", 1},
             {"num_v_heads", 2},
             {"expand_k", 0.5},
             {"expand_v", 2},
             {"num_partitions", 5},
             {"top_k", 2},
             {"lora_rank", 3},
             {"conv_size", 4},
             {"allow_neg_eigval", true},
             {"write_gate", "beta"},
             {"implementation", "masking"},
             {"norm_eps", 1e-6}},
      Object{{"use_shared", false}, {"top_k", 2}, {"write_gate", "beta"}, {"output_gate", "none"}},
      Object{{"implementation", "loop"}, {"output_gate", "sigmoid"}, {"write_gate", "none"}},
      Object{{"num_readers", 3}, {"read_gate", false}},
  };
  registry.Add("sse_gdn", std::move(entry));
}

}  // namespace mixerbench::models::sse_gdn
