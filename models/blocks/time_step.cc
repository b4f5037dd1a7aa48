// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/time_step.h"

#include <ATen/TensorOperators.h>

namespace mixerbench::models {

at::Tensor InverseSoftplus(const at::Tensor& y) { return y + (-(-y).expm1()).log(); }

at::Tensor DrawStepBias(const ParameterScope& scope, std::string_view name, std::int64_t channels,
                        const TimeStepRange& range) {
  const at::Tensor steps = scope.Draw(name, {channels}, Init::LogUniform(range.min, range.max));
  return InverseSoftplus(steps.clamp_min(range.floor));
}

at::Tensor AddStepBias(const ParameterScope& scope, std::string_view name, std::int64_t channels,
                       const TimeStepRange& range) {
  return scope.AddSpecial(name, DrawStepBias(scope, name, channels, range));
}

}  // namespace mixerbench::models
