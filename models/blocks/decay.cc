// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/decay.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/softplus.h>

#include "models/blocks/dtype.h"

namespace mixerbench::models {
namespace {

constexpr double kMinA = 1e-4;
constexpr double kMaxA = 16;
constexpr double kMinDt = 1e-3;
constexpr double kMaxDt = 0.1;

// ln(e^y - 1) without cancellation.
at::Tensor InverseSoftplus(const at::Tensor& y) { return y + (-(-y).expm1()).log(); }

}  // namespace

at::Tensor AddTimeStepBias(const ParameterScope& scope, std::int64_t channels) {
  return scope.AddSpecial("dt_bias", InverseSoftplus(scope.Draw("dt_bias", {channels},
                                                                Init::LogUniform(kMinDt, kMaxDt))));
}

SoftplusDecay::SoftplusDecay(const ParameterScope& scope, std::int64_t channels)
    : A_log(scope.AddSpecial("A_log",
                             scope.Draw("A_log", {channels}, Init::Uniform(kMinA, kMaxA)).log())),
      dt_bias(AddTimeStepBias(scope, channels)) {}

at::Tensor SoftplusDecay::operator()(const at::Tensor& logits) const {
  return -at::exp(A_log) * at::softplus(AtLeastFloat(logits) + dt_bias);
}

}  // namespace mixerbench::models
