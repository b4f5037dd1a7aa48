// The step of a state space at the start of training: log-uniform in a range, stored as what
// softplus takes to it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <ATen/core/Tensor.h>

#include "models/blocks/config_checks.h"
#include "models/parameters.h"

namespace mixerbench::models {

struct TimeStepRange {
  double min = 1e-3;
  double max = 0.1;
  double floor = 1e-4;  // what is drawn below it starts there
};

// ln(e^y - 1) without cancellation.
at::Tensor InverseSoftplus(const at::Tensor& y);

// The values that a parameter `name` [channels] of `scope` starts with: softplus(value) as
// described.
at::Tensor DrawStepBias(const ParameterScope& scope, std::string_view name, std::int64_t channels,
                        const TimeStepRange& range);

// Adds that parameter: its own initialisation stands whatever the policy, and a recipe may exempt
// it from weight decay.
at::Tensor AddStepBias(const ParameterScope& scope, std::string_view name, std::int64_t channels,
                       const TimeStepRange& range);

// Of the options dt_min, dt_max and dt_init_floor. Throws ConfigError below `where`.
template <typename Config>
TimeStepRange TimeStepRangeOf(const Config& config, const std::string& where) {
  CheckPositive(config.dt_min, where, "dt_min");
  CheckPositive(config.dt_max, where, "dt_max");
  CheckPositive(config.dt_init_floor, where, "dt_init_floor");
  if (config.dt_min > config.dt_max) throw ConfigError(where + "/dt_min", "is above dt_max");
  return {.min = config.dt_min, .max = config.dt_max, .floor = config.dt_init_floor};
}

}  // namespace mixerbench::models
