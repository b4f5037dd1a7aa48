// What device code there is for GLA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "kernels/runtime/device_plan.h"

namespace mixerbench::kernels::gla {

// All plans of the core, and the sizes that they take.
const std::vector<DevicePlan>& DevicePlans();

}  // namespace mixerbench::kernels::gla
