// SPDX-License-Identifier: Apache-2.0
#include "tests/support/mixer.h"

#include <algorithm>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/sin.h>

#include "base/check.h"

namespace mixerbench::testing {

std::unique_ptr<models::Mixer> MakeMixer(const RegisterMixers& registration, Object config,
                                         models::MixerContext context,
                                         const models::ParameterScope& scope) {
  models::MixerRegistry registry("mixer");
  registration(registry);
  if (!config.contains("name")) config["name"] = registry.Names().at(0);
  context.registry = &registry;
  return models::CreateMixer(config, "/mixer", context, scope);
}

models::ParameterSet NewParameters(std::int64_t num_layers) {
  return {1, models::InitPolicy::kDefault, num_layers, at::kCPU, at::kDouble};
}

at::Tensor FindParameter(const models::ParameterSet& parameters, std::string_view name) {
  for (const models::Parameter& parameter : parameters.parameters()) {
    if (parameter.name == name) return parameter.tensor;
  }
  Require(false, "no parameter " + std::string(name));
  return {};
}

MadeMixer::MadeMixer(const RegisterMixers& registration, Object config,
                     const models::MixerContext& context, models::InitPolicy policy,
                     at::ScalarType dtype)
    : parameters(1, policy, 2, at::kCPU, dtype),
      mixer(MakeMixer(registration, std::move(config), context,
                      models::ParameterScope(parameters))) {}

at::Tensor MadeMixer::operator[](std::string_view name) const {
  return FindParameter(parameters, name).detach();
}

at::Tensor Sines(at::IntArrayRef sizes, std::size_t seed) {
  const std::int64_t size = c10::multiply_integers(sizes);
  const at::Tensor phase = at::arange(1, size + 1, at::kDouble) * 0.7;
  return (at::sin(phase + 1.3 * static_cast<double>(seed)) * 0.5).view(sizes);
}

void FillParameters(const models::ParameterSet& parameters, const std::vector<std::string>& names) {
  const at::NoGradGuard no_grad;
  Require(parameters.parameters().size() == names.size(), "not as many parameters as names");
  for (const models::Parameter& parameter : parameters.parameters()) {
    const auto name = std::find(names.begin(), names.end(), parameter.name);
    Require(name != names.end(), "no name for " + parameter.name);
    const auto seed = static_cast<std::size_t>(name - names.begin());
    parameter.tensor.copy_(Sines(parameter.tensor.sizes(), seed));
  }
}

}  // namespace mixerbench::testing
