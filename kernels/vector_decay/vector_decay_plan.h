// What device code there is for vector decay.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "kernels/device_plan.h"

namespace mixerbench::kernels::vector_decay {

// All plans of the core, and the sizes that they take.
const std::vector<DevicePlan>& DevicePlans();

}  // namespace mixerbench::kernels::vector_decay
