// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/selectlti/selectlti.h"

#include <memory>
#include <optional>
#include <string>

#include <ATen/TensorOperators.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>

#include "models/blocks/config_checks.h"
#include "models/blocks/holding_mixer.h"
#include "models/blocks/linear.h"

namespace mixerbench::models::selectlti {
namespace {

constexpr char kCore[] = "core";

const Fields<SelectLtiConfig>& ConfigFields() {
  static const auto fields =
      Fields<SelectLtiConfig>()
          .Add("core", &SelectLtiConfig::core, "the mixer between the gains")
          .Add("in", &SelectLtiConfig::in, "gains on the input of the core")
          .Add("out", &SelectLtiConfig::out, "gains on the output of the core, made from it")
          .Add("bottleneck", &SelectLtiConfig::bottleneck, "hidden width of what makes the gains")
          .Add("unit_bias", &SelectLtiConfig::unit_bias, "the gains' last bias starts at 1")
          .Add("activation", &SelectLtiConfig::activation, "after the core and its gains")
          .Add("activation_first", &SelectLtiConfig::activation_first,
               "the activation comes before the gains on the output");
  return fields;
}

SelectLtiConfig Parse(const Value& config, const std::string& where) {
  SelectLtiConfig parsed = ConfigFields().Parse(config, where);
  CheckRange(parsed.bottleneck, 1, 1 << 16, where, "bottleneck");
  return parsed;
}

// x * g(x), g(x) = W2 sigmoid(W1 x + b1) + b2.
class Modulator {
 public:
  Modulator(const ParameterScope& scope, std::int64_t width, const SelectLtiConfig& config)
      : fc1_(scope.Child("fc1"), width, config.bottleneck, /*bias=*/true),
        fc2_(scope.Child("fc2"), config.bottleneck, width, /*bias=*/false) {
    bias_ = config.unit_bias ? scope.AddSpecial("fc2.bias", {width}, Init::Constant(1))
                             : scope.Add("fc2.bias", {width}, ParameterRole::kLinearBias,
                                         FanInUniform(config.bottleneck));
  }

  at::Tensor operator()(const at::Tensor& x, ExecutionPath path) const {
    const at::Tensor gain = fc2_(at::sigmoid(fc1_(x, path)), path);
    return x * (gain + bias_.to(x.scalar_type()));
  }

 private:
  Linear fc1_;
  Linear fc2_;
  at::Tensor bias_;
};

class SelectLti final : public HoldingMixer {
 public:
  SelectLti(const SelectLtiConfig& config, const std::string& where, const MixerContext& context,
            const ParameterScope& scope)
      : activation_(config.activation), activation_first_(config.activation_first) {
    Add(kCore, config.core, where + "/core", context, scope);
    if (config.in) in_.emplace(scope.Child("in"), context.d_model, config);
    const std::int64_t width = traits().output_dim != 0 ? traits().output_dim : context.d_model;
    if (config.out) out_.emplace(scope.Child("out"), width, config);
  }

  MixerTraits traits() const override {
    MixerTraits traits = HoldingMixer::traits();
    traits.output_dim = held(0).traits().output_dim;
    return traits;
  }

  Mixed Mix(const MixerInputs& inputs, const MixerOptions& options) const override {
    MixerInputs modulated = inputs;
    if (in_) modulated.x = (*in_)(inputs.x, options.path);
    return HoldingMixer::Mix(modulated, options);
  }

  at::Tensor Output(const Mixed& mixed, const MixerOptions& options) const override {
    at::Tensor y = OutputOf(0, mixed, options);
    if (activation_first_) y = Activate(y);
    if (out_) y = (*out_)(y, options.path);
    return activation_first_ ? y : Activate(y);
  }

 private:
  at::Tensor Activate(const at::Tensor& y) const {
    return activation_ == SelectLtiActivation::kSilu ? at::silu(y) : y;
  }

  SelectLtiActivation activation_;
  bool activation_first_;
  std::optional<Modulator> in_;
  std::optional<Modulator> out_;
};

std::unique_ptr<Mixer> Make(const SelectLtiConfig& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  return std::make_unique<SelectLti>(config, where, context, scope);
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeHoldingEntry(ConfigFields(), Parse, kCore, &SelectLtiConfig::core, Make);
  entry.summary = "SelectLTI: input-dependent gains before and after a time-invariant mixer";
  entry.source = "SelectLTI: selective time-invariant state spaces";
  entry.test_configs = {
      Object{{"core", Object{{"name", "s4d"}, {"form", "full"}, {"d_state", 8}, {"n_ssm", 1}}},
             {"out", false},
             {"activation", "none"}},
      Object{{"in", false}, {"bottleneck", 3}, {"unit_bias", true}, {"activation_first", true}},
  };
  registry.Add("selectlti", std::move(entry));
}

}  // namespace mixerbench::models::selectlti
