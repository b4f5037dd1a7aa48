// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/mom/memory_gates.h"

#include <string>
#include <utility>
#include <vector>

#include <ATen/ops/stack.h>

#include "kernels/gates/gates.h"
#include "kernels/linear_attention/delta_rule/delta_rule.h"
#include "kernels/linear_attention/gla/gla.h"
#include "models/blocks/decay.h"
#include "models/blocks/linear.h"

namespace mixerbench::models::mom {
namespace {

// Columns: write strengths of all memories, then their decays, one a head each.
MemoryGates DeltaGates(const MomConfig& config, std::int64_t num_sets,
                       const ParameterScope& scope) {
  const auto fill =
      [num_sets, num_heads = config.num_heads, beta_scale = config.allow_neg_eigval ? 2.0 : 1.0,
       decay = SoftplusDecay(scope, config.num_heads)](
          const at::Tensor& columns, kernels::ExecutionPath path, RoutedArgs& memories) {
        const auto gates = kernels::ComputeDeltaGates({.z = columns,
                                                       .beta_scale = beta_scale,
                                                       .A_log = decay.A_log.repeat({num_sets}),
                                                       .dt_bias = decay.dt_bias.repeat({num_sets})},
                                                      path);
        memories.beta = gates.beta.unflatten(-1, {num_sets, num_heads});
        memories.log_decay = gates.log_decay.unflatten(-1, {num_sets, num_heads});
      };
  return {.core = kernels::DeltaRule,
          .num_columns = 2 * config.num_heads * num_sets,
          .layer_columns = config.num_heads,
          .normalises = true,
          .fill = fill};
}

// Columns: the inner logits of each memory.
MemoryGates VectorGates(const MomConfig& config, std::int64_t num_sets, std::int64_t head_k_dim,
                        const ParameterScope& scope) {
  std::vector<Linear> projections;
  for (std::int64_t set = 0; set < num_sets; ++set) {
    const bool is_shared = config.use_shared && set + 1 == num_sets;
    const std::string name = is_shared ? "shared" : "memories." + std::to_string(set);
    projections.emplace_back(scope.Child(name).Child("decay_proj"), config.gate_low_rank_dim,
                             config.num_heads * head_k_dim, /*bias=*/true,
                             ParameterRole::kLinearWeight, config.init);
  }
  const auto fill =
      [projections, num_heads = config.num_heads, normalizer = config.gate_logit_normalizer](
          const at::Tensor& columns, kernels::ExecutionPath path, RoutedArgs& memories) {
        const std::vector<at::Tensor> inner =
            columns.chunk(static_cast<std::int64_t>(projections.size()), -1);
        std::vector<at::Tensor> log_decays;
        for (std::size_t set = 0; set < projections.size(); ++set) {
          const at::Tensor logits = projections[set](inner[set], path);
          log_decays.push_back(kernels::LogSigmoidDecay(logits, normalizer, /*floor=*/0, path)
                                   .unflatten(-1, {num_heads, -1}));
        }
        memories.log_decay = at::stack(log_decays, 2);  // [B,T,S,H,K]
      };
  return {.core = kernels::Gla,
          .num_columns = config.gate_low_rank_dim * num_sets,
          .layer_columns = config.gate_low_rank_dim,
          .normalises = false,
          .fill = fill};
}

}  // namespace

MemoryGates MakeMemoryGates(const MomConfig& config, std::int64_t num_sets, std::int64_t head_k_dim,
                            const ParameterScope& scope) {
  return config.memory == Memory::kGla ? VectorGates(config, num_sets, head_k_dim, scope)
                                       : DeltaGates(config, num_sets, scope);
}

}  // namespace mixerbench::models::mom
