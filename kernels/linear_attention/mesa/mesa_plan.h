// What device code there is for Mesa.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "kernels/runtime/device_plan.h"

namespace mixerbench::kernels::mesa {

// The systems of all tokens are solved by one kernel, the rest is ATen's products in chunks.
inline constexpr std::string_view kConjugateGradientPlan = "conjugate_gradient";

// A lane owns kMaxKeys / 32 columns of H in registers.
constexpr int kMaxKeys = 64;

// The one plan, conjugate_gradient.
const std::vector<DevicePlan>& DevicePlans();

}  // namespace mixerbench::kernels::mesa
