// What device code there is for the delta rule, and why it takes some sizes and not others.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernels/linear_attention/delta_rule/delta_rule_kernels.h"
#include "kernels/runtime/device_plan.h"

namespace mixerbench::kernels::delta_rule {

// All plans of the core, and the sizes that they take.
const std::vector<DevicePlan>& DevicePlans();

// The name of a plan among those.
std::string_view NameOf(const DeltaRulePlan& plan);

// Why PlanDeltaRule has no plan; empty when it has one.
std::string PlanRefusal(const DeltaRuleSizes& sizes, const device::DeviceLimits& limits);

}  // namespace mixerbench::kernels::delta_rule
