// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/decay.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/softplus.h>

#include "models/blocks/dtype.h"
#include "models/blocks/time_step.h"

namespace mixerbench::models {
namespace {

constexpr double kMinA = 1e-4;
constexpr double kMaxA = 16;

}  // namespace

SoftplusDecay::SoftplusDecay(const ParameterScope& scope, std::int64_t channels)
    : A_log(scope.AddSpecial("A_log",
                             scope.Draw("A_log", {channels}, Init::Uniform(kMinA, kMaxA)).log())),
      dt_bias(AddStepBias(scope, "dt_bias", channels, TimeStepRange{})) {}

at::Tensor SoftplusDecay::operator()(const at::Tensor& logits) const {
  return -at::exp(A_log) * at::softplus(AtLeastFloat(logits) + dt_bias);
}

}  // namespace mixerbench::models
