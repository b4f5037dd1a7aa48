// Which walks there are, by name, and the sizes that they take.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "kernels/cuda/decay_walk.h"
#include "kernels/device_plan.h"

namespace mixerbench::kernels::cuda {

// The plans of a core whose passes are walks. `axis`: kNone, or another for cores with decays of
// their own on channels.
const std::vector<DevicePlan>& DecayWalkPlans(DecayAxis axis);

// The name of a plan among those: "chunk_scan" or "chunk_parallel", with "_wgmma" when the products
// are those of warpgroups.
std::string_view NameOf(const WalkPlan& plan);

}  // namespace mixerbench::kernels::cuda
