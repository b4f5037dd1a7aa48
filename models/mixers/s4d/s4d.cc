// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/s4d/s4d.h"

#include <memory>
#include <string>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>

#include "models/blocks/config_checks.h"
#include "models/blocks/dtype.h"
#include "models/mixer_entry.h"

namespace mixerbench::models::s4d {
namespace {

constexpr char kState[] = "state";
constexpr double kSlowest = 1e-4;  // frequency of the full form at the start

const Fields<S4dConfig>& ConfigFields() {
  static const auto fields =
      Fields<S4dConfig>()
          .Add("form", &S4dConfig::form,
               "minimal: a system for every channel, S4D-Lin, B = 1; full: n_ssm systems of any "
               "init with a learned B")
          .Add("d_state", &S4dConfig::d_state, "real numbers of state per channel, even")
          .Add("init", &S4dConfig::init, "frequencies of the modes at the start")
          .Add("n_ssm", &S4dConfig::n_ssm, "systems that the channels share; 0: d_model")
          .Add("discretization", &S4dConfig::discretization, "from rates to factors per token")
          .Add("dt_transform", &S4dConfig::dt_transform, "what makes a time step of its parameter")
          .Add("dt_min", &S4dConfig::dt_min, "shortest time step at the start")
          .Add("dt_max", &S4dConfig::dt_max, "longest time step at the start")
          .Add("dropout", &S4dConfig::dropout, "before and after the GELU")
          .Add("tie_dropout", &S4dConfig::tie_dropout, "one mask for all tokens of a sequence");
  return fields;
}

class S4d final : public Mixer {
 public:
  S4d(const S4dConfig& config, std::int64_t num_systems, const MixerContext& context,
      const ParameterScope& scope)
      : S4d(config, InitialModes(config.init, num_systems, config.d_state / 2), context, scope) {}

  State InitialState(std::int64_t batch_size) const override {
    const auto dtype = c10::toComplexType(AtLeastFloat(output_).scalar_type());
    return StateOf(at::zeros({batch_size, output_.size(0), output_.size(1)},
                             output_.options().dtype(dtype).requires_grad(false)));
  }

  Mixed Mix(const MixerInputs& inputs, const MixerOptions& options) const override {
    SystemResult result =
        RunSystem(System(), AtLeastFloat(inputs.x), Find(options.initial_state, kState),
                  options.want_final_state, options.path);
    Mixed mixed;
    mixed.tokens = after_.Tokens(result.y, inputs.x, options);
    if (options.want_final_state) mixed.final_state = StateOf(result.final_state);
    return mixed;
  }

  at::Tensor Output(const Mixed& mixed, const MixerOptions& options) const override {
    return after_(mixed, options);
  }

 private:
  S4d(const S4dConfig& config, const DiagonalModes& modes, const MixerContext& context,
      const ParameterScope& scope)
      : discretization_(config.discretization),
        steps_(scope, "inv_dt", context.d_model,
               {config.dt_min, config.dt_max, config.dt_transform}),
        rates_(scope, modes.rate, config.form == S4dForm::kFull ? kSlowest : 0),
        output_(AddComplexNormal(scope, "C", {context.d_model, config.d_state / 2})),
        after_({config.dropout, config.tie_dropout}, context, scope) {
    if (config.form == S4dForm::kFull) input_ = AddSsmParameter(scope, "B", ToPairs(modes.input));
  }

  static State StateOf(const at::Tensor& state) { return {.tensors = {{kState, {state}}}}; }

  DiagonalSystem System() const {
    const std::int64_t channels = output_.size(0);
    const at::Tensor rate = ShareSystems(rates_(), channels);
    const at::Tensor input =
        input_.defined() ? ShareSystems(FromPairs(input_), channels) : at::ones_like(rate);
    return Discretize(rate, input, FromPairs(output_), steps_(), discretization_);
  }

  Discretization discretization_;
  TimeSteps steps_;
  DiagonalRates rates_;
  at::Tensor input_;   // pairs [S,M,2]; undefined: 1
  at::Tensor output_;  // pairs [D,M,2]
  StateSpaceOutput after_;
};

std::unique_ptr<Mixer> Make(const S4dConfig& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  CheckRange(config.d_state, 2, 4096, where, "d_state");
  DivideExactly(config.d_state, 2, where, "d_state", "d_state");
  CheckSteps(config.dt_min, config.dt_max, where);
  CheckDropout(config.dropout, where, "dropout");
  CheckRange(config.n_ssm, 0, context.d_model, where, "n_ssm");
  if (config.form == S4dForm::kMinimal) {
    if (config.init != DiagonalInit::kLin) {
      throw ConfigError(where + "/init", "is lin in the minimal form; set form to full");
    }
    if (config.n_ssm != 0) {
      throw ConfigError(where + "/n_ssm", "is 0 in the minimal form; set form to full");
    }
  }
  const std::int64_t num_systems = config.n_ssm != 0 ? config.n_ssm : context.d_model;
  DivideExactly(context.d_model, num_systems, where, "n_ssm", "d_model");
  if (config.init == DiagonalInit::kDiag && num_systems % 2 != 0) {
    throw ConfigError(where + "/init", "diag has two halves, but there are " +
                                           std::to_string(num_systems) + " systems (n_ssm)");
  }
  return std::make_unique<S4d>(config, num_systems, context, scope);
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeMixerEntry(ConfigFields(), Make);
  entry.summary = "S4D: a diagonal complex state space for every channel";
  entry.source = "arXiv 2206.11893, state-spaces/s4 e757cef";
  entry.test_configs = {
      Object{{"form", "full"}, {"d_state", 6}, {"init", "legs"}, {"n_ssm", 1}},
      Object{{"form", "full"},
             {"d_state", 8},
             {"init", "diag"},
             {"n_ssm", 4},
             {"discretization", "bilinear"},
             {"dt_transform", "softplus"},
             {"dt_min", 0.01},
             {"dt_max", 0.2},
             {"dropout", 0.25},
             {"tie_dropout", false}},
  };
  registry.Add("s4d", std::move(entry));
}

}  // namespace mixerbench::models::s4d
