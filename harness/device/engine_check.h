// What `doctor` finds out with libtorch in the process.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "harness/device/health_check.h"

namespace mixerbench::harness {

// libtorch computes right and repeats its bits; the GPUs, each tried, and whether this build and
// the driver serve them. `device` is that of ParseDevice, which is asked for it.
std::vector<HealthCheck> CheckEngine(const std::string& device);

}  // namespace mixerbench::harness
