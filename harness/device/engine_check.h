// What `doctor` finds out with libtorch in the process.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/device/health_check.h"

namespace mixerbench::harness {

// libtorch computes right and repeats its bits; the GPUs, each tried, with their clocks, and
// whether this build and the driver serve them. `device` is that of ParseDevice, which is asked for
// it. With `wait_idle_s` its GPU must be idle first, or become so within that time; the waiting is
// told on stderr.
std::vector<HealthCheck> CheckEngine(const std::string& device, std::optional<double> wait_idle_s);

}  // namespace mixerbench::harness
