// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/moe/moe.h"

#include <memory>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/gelu.h>

#include "models/blocks/config_checks.h"
#include "models/blocks/linear.h"
#include "models/blocks/routing.h"
#include "models/mixer_entry.h"

namespace mixerbench::models::moe {
namespace {

const Fields<MoeConfig>& ConfigFields() {
  static const auto fields =
      Fields<MoeConfig>()
          .Add("num_experts", &MoeConfig::num_experts, "experts")
          .Add("active_experts", &MoeConfig::active_experts, "experts that a token chooses")
          .Add("expert_dim", &MoeConfig::expert_dim, "inner channels of an expert")
          .Add("drop_unchosen", &MoeConfig::drop_unchosen,
               "experts that are not chosen have no weight; MAD's keep that of a score of 0");
  return fields;
}

class Moe final : public Mixer {
 public:
  Moe(const MoeConfig& config, std::int64_t d_model, const ParameterScope& scope)
      : config_(config),
        up_(scope.Child("up"), d_model, 2 * config.num_experts * config.expert_dim,
            /*bias=*/false),
        down_(scope.Child("down"), config.num_experts * config.expert_dim,
              config.num_experts * d_model, /*bias=*/false, ParameterRole::kResidualOutputWeight),
        router_(scope.Child("router"), d_model, config.num_experts, /*bias=*/true) {}

  MixerTraits traits() const override { return {.discrete = true}; }

  State InitialState(std::int64_t) const override { return {}; }

  Mixed Mix(const MixerInputs& inputs, const MixerOptions& options) const override {
    if (options.taps.Wants("router")) {
      options.taps.Record("router", Weights(inputs.x, options.path));
    }
    return {.tokens = {{inputs.x}}};
  }

  at::Tensor Output(const Mixed& mixed, const MixerOptions& options) const override {
    const at::Tensor& x = mixed.tokens[0].value;
    const std::vector<at::Tensor> halves = up_(x, options.path).chunk(2, -1);
    const at::Tensor experts = down_(halves[0] * at::gelu(halves[1], "tanh"), options.path)
                                   .unflatten(-1, {-1, config_.num_experts});  // [...,D,E]
    const at::Tensor weights = Weights(x, options.path).to(x.scalar_type());
    return (experts * weights.unsqueeze(-2)).sum(-1);
  }

 private:
  // [...,D] -> [...,E].
  at::Tensor Weights(const at::Tensor& x, ExecutionPath path) const {
    return ExpertWeights(router_(x, path), config_.active_experts, config_.drop_unchosen);
  }

  MoeConfig config_;
  Linear up_;
  Linear down_;
  Linear router_;
};

std::unique_ptr<Mixer> Make(const MoeConfig& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  CheckRange(config.num_experts, 1, 1024, where, "num_experts");
  CheckRange(config.active_experts, 1, config.num_experts, where, "active_experts");
  CheckRange(config.expert_dim, 1, 1 << 16, where, "expert_dim");
  return std::make_unique<Moe>(config, context.d_model, scope);
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeMixerEntry(ConfigFields(), Make);
  entry.summary = "MAD's mixture of experts over channels; nothing runs over time";
  entry.source = "arXiv 2403.17844, athms/mad-lab 0f49a45";
  entry.test_configs = {Object{
      {"num_experts", 4}, {"active_experts", 1}, {"expert_dim", 5}, {"drop_unchosen", true}}};
  registry.Add("moe", std::move(entry));
}

}  // namespace mixerbench::models::moe
