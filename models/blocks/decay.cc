// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/decay.h"

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

}  // namespace mixerbench::models
