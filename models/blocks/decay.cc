// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/decay.h"

#include <ATen/ops/log_sigmoid.h>
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

at::Tensor LogSigmoidDecay(const at::Tensor& logits, double temperature) {
  return at::log_sigmoid(AtLeastFloat(logits)) / temperature;
}

SoftplusDecay::SoftplusDecay(const ParameterScope& scope, std::int64_t channels)
    : A_log_(scope.AddSpecial("A_log",
                              scope.Draw("A_log", {channels}, Init::Uniform(kMinA, kMaxA)).log())),
      dt_bias_(scope.AddSpecial(
          "dt_bias",
          InverseSoftplus(scope.Draw("dt_bias", {channels}, Init::LogUniform(kMinDt, kMaxDt))))) {}

at::Tensor SoftplusDecay::operator()(const at::Tensor& logits) const {
  return -A_log_.exp() * at::softplus(AtLeastFloat(logits) + dt_bias_);
}

}  // namespace mixerbench::models
