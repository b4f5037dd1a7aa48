// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/state_space.h"

#include <cmath>
#include <string>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/glu.h>
#include <ATen/ops/log.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/view_as_real.h>

#include "base/error.h"
#include "models/blocks/dropout.h"
#include "models/blocks/dtype.h"
#include "models/blocks/time_step.h"

namespace mixerbench::models {

at::Tensor AddSsmParameter(const ParameterScope& scope, std::string_view name,
                           const at::Tensor& values) {
  return scope.AddSpecial(name, values, /*lr_group=*/"ssm");
}

at::Tensor ToPairs(const at::Tensor& values) {
  return at::view_as_real(values.resolve_conj().contiguous());
}

at::Tensor FromPairs(const at::Tensor& parameter) {
  const auto parts = parameter.to(at::kDouble).unbind(-1);
  return at::complex(parts[0], parts[1]);
}

at::Tensor AddComplexNormal(const ParameterScope& scope, std::string_view name,
                            std::vector<std::int64_t> shape) {
  shape.push_back(2);
  return scope.Add(name, std::move(shape), ParameterRole::kOwnWeight, Init::Normal(std::sqrt(0.5)));
}

at::Tensor AddComplex(const ParameterScope& scope, std::string_view name,
                      const at::Tensor& values) {
  const at::Tensor pairs = ToPairs(values);
  const at::Tensor parameter =
      scope.Add(name, pairs.sizes().vec(), ParameterRole::kOwnWeight, Init::Constant(0));
  const at::NoGradGuard no_grad;
  parameter.copy_(pairs);
  return parameter;
}

at::Tensor TimeSteps::Draw(const ParameterScope& scope, std::string_view name, std::int64_t count,
                           const TimeStepConfig& config) {
  return scope.Draw(name, {count}, Init::LogUniform(config.min, config.max)).unsqueeze(-1);
}

TimeSteps::TimeSteps(const ParameterScope& scope, std::string_view name, std::int64_t count,
                     const TimeStepConfig& config)
    : transform_(config.transform) {
  const at::Tensor step = Draw(scope, name, count, config).squeeze(-1);
  const at::Tensor stored = transform_ == StepTransform::kExp ? step.log() : InverseSoftplus(step);
  stored_ = AddSsmParameter(scope, name, stored);
}

at::Tensor TimeSteps::operator()() const {
  const at::Tensor wide = stored_.to(at::kDouble).unsqueeze(-1);
  if (transform_ == StepTransform::kExp) return wide.exp();
  return at::softplus(wide, /*beta=*/1, /*threshold=*/40);
}

void CheckSteps(double dt_min, double dt_max, const std::string& where) {
  if (!(dt_min > 0)) throw ConfigError(where + "/dt_min", "must be positive");
  if (!(dt_max >= dt_min && std::isfinite(dt_max))) {
    throw ConfigError(where + "/dt_max", "must be finite and not below dt_min");
  }
}

StateSpaceOutput::StateSpaceOutput(const Config& config, const MixerContext& context,
                                   const ParameterScope& scope)
    : config_(config),
      skip_(scope.Add("D", {context.d_model}, ParameterRole::kOwnWeight, Init::Normal(1))) {
  if (!context.output_projection) return;
  output_linear_.emplace(scope.Child("output_linear"), context.d_model, 2 * context.d_model,
                         /*bias=*/true);
}

std::vector<TokenTensor> StateSpaceOutput::Tokens(const at::Tensor& y, const at::Tensor& u,
                                                  const MixerOptions& options) const {
  const at::Tensor wide = AtLeastFloat(u);
  const at::Tensor sum = (y + wide * skip_.to(wide.scalar_type())).to(u.scalar_type());
  if (config_.dropout == 0 || !options.generator) return {{sum}};
  // Both masks are drawn here, where sequences are still apart.
  const auto mask = [&] {
    const std::int64_t tokens = config_.tie_dropout ? 1 : sum.size(1);
    return Dropout(at::ones({sum.size(0), tokens, sum.size(2)}, sum.options().requires_grad(false)),
                   config_.dropout, options.generator)
        .expand(sum.sizes());
  };
  const at::Tensor before = sum * mask();
  return {{before}, {mask()}};
}

at::Tensor StateSpaceOutput::operator()(const Mixed& mixed, const MixerOptions& options) const {
  at::Tensor y = at::gelu(mixed.tokens[0].value);
  if (mixed.tokens.size() > 1) y = y * mixed.tokens[1].value;
  return output_linear_ ? at::glu((*output_linear_)(y, options.path), -1) : y;
}

}  // namespace mixerbench::models
