// Which scans there are, by name, and the sizes that they take.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "kernels/linear_attention/scan/decay_scan.h"
#include "kernels/runtime/device_plan.h"

namespace mixerbench::kernels::decay_scan {

// The plans of a core whose passes are scans. `axis`: kNone, or another for cores with decays of
// their own on channels.
const std::vector<DevicePlan>& DecayScanPlans(DecayAxis axis);

// The name of a plan among those: "chunk_scan" or "chunk_parallel", with "_wgmma" when the products
// are those of warpgroups.
std::string_view NameOf(const ScanPlan& plan);

}  // namespace mixerbench::kernels::decay_scan
