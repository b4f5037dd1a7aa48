// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/lru/lru.h"

#include <cmath>
#include <memory>
#include <string>

#include <ATen/TensorOperators.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/log.h>
#include <ATen/ops/zeros.h>

#include "models/blocks/config_checks.h"
#include "models/blocks/dtype.h"
#include "models/blocks/mimo_system.h"
#include "models/blocks/state_space.h"
#include "models/mixer_entry.h"

namespace mixerbench::models::lru {
namespace {

constexpr char kState[] = "state";

const Fields<LruConfig>& ConfigFields() {
  static const auto fields =
      Fields<LruConfig>()
          .Add("d_state", &LruConfig::d_state, "complex modes")
          .Add("r_min", &LruConfig::r_min, "smallest modulus of a factor at the start")
          .Add("r_max", &LruConfig::r_max, "largest modulus of a factor at the start")
          .Add("max_phase", &LruConfig::max_phase, "largest angle of a factor at the start")
          .Add("dropout", &LruConfig::dropout, "before and after the GELU")
          .Add("tie_dropout", &LruConfig::tie_dropout, "one mask for all tokens of a sequence");
  return fields;
}

class Lru final : public Mixer {
 public:
  Lru(const LruConfig& config, const MixerContext& context, const ParameterScope& scope)
      : after_({config.dropout, config.tie_dropout}, context, scope) {
    const std::int64_t modes = config.d_state;
    constexpr double kTiny = 1e-12;  // keeps logarithms finite
    const auto uniform = [&](std::string_view name) {
      return scope.Draw(name, {modes}, Init::Uniform(0, 1)).clamp_min(kTiny);
    };
    // |lambda|^2 is uniform between r_min^2 and r_max^2: uniform in the ring.
    const double inner = config.r_min * config.r_min;
    const at::Tensor square = uniform("nu_log") * (config.r_max * config.r_max - inner) + inner;
    nu_log_ = AddSsmParameter(scope, "nu_log", (square.log() * -0.5).log());
    theta_log_ =
        AddSsmParameter(scope, "theta_log", (uniform("theta_log") * config.max_phase).log());
    gamma_log_ = AddSsmParameter(scope, "gamma_log", (1 - square).log() / 2);
    const auto width = static_cast<double>(context.d_model);
    input_ = AddSsmParameter(
        scope, "B",
        scope.Draw("B", {modes, context.d_model, 2}, Init::Normal(std::sqrt(0.5 / width))));
    output_ = scope.Add("C", {context.d_model, modes, 2}, ParameterRole::kOwnWeight,
                        Init::Normal(1 / std::sqrt(static_cast<double>(modes))));
  }

  State InitialState(std::int64_t batch_size) const override {
    const auto dtype = c10::toComplexType(AtLeastFloat(input_).scalar_type());
    return StateOf(at::zeros({batch_size, nu_log_.size(0)},
                             input_.options().dtype(dtype).requires_grad(false)));
  }

  Mixed Mix(const MixerInputs& inputs, const MixerOptions& options) const override {
    const at::Tensor gamma = gamma_log_.to(at::kDouble).exp().unsqueeze(-1);
    const MimoSystem system = {
        .log_step = at::complex(-nu_log_.to(at::kDouble).exp(), theta_log_.to(at::kDouble).exp()),
        .input = FromPairs(input_) * gamma,
        .output = FromPairs(output_)};
    const MimoResult result =
        RunMimo(system, AtLeastFloat(inputs.x), Find(options.initial_state, kState), options.path);
    Mixed mixed;
    mixed.tokens = after_.Tokens(result.y, inputs.x, options);
    if (options.want_final_state) mixed.final_state = StateOf(result.final_state);
    return mixed;
  }

  at::Tensor Output(const Mixed& mixed, const MixerOptions& options) const override {
    return after_(mixed, options);
  }

 private:
  static State StateOf(const at::Tensor& state) { return {.tensors = {{kState, {state}}}}; }

  at::Tensor nu_log_;     // [N]
  at::Tensor theta_log_;  // [N]
  at::Tensor gamma_log_;  // [N]
  at::Tensor input_;      // pairs [N,D,2]
  at::Tensor output_;     // pairs [D,N,2]
  StateSpaceOutput after_;
};

std::unique_ptr<Mixer> Make(const LruConfig& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  CheckRange(config.d_state, 1, 1 << 16, where, "d_state");
  if (!(config.r_min >= 0)) throw ConfigError(where + "/r_min", "must not be negative");
  if (!(config.r_max > config.r_min && config.r_max <= 1)) {
    throw ConfigError(where + "/r_max", "must be above r_min and at most 1");
  }
  CheckPositive(config.max_phase, where, "max_phase");
  CheckDropout(config.dropout, where, "dropout");
  return std::make_unique<Lru>(config, context, scope);
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeMixerEntry(ConfigFields(), Make);
  entry.summary = "LRU: a diagonal complex recurrence in discrete time";
  entry.source = "arXiv 2303.06349";
  entry.test_configs = {Object{{"d_state", 6},
                               {"r_min", 0.5},
                               {"r_max", 0.99},
                               {"max_phase", 0.3},
                               {"dropout", 0.25},
                               {"tie_dropout", false}}};
  registry.Add("lru", std::move(entry));
}

}  // namespace mixerbench::models::lru
