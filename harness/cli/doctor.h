// What a machine needs for runs, each looked at.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/device/health_check.h"

namespace mixerbench::harness {

// Build, processor, load, memory, limits and locale: what needs no libtorch and no folder.
std::vector<HealthCheck> CheckMachine();

// That files can be made and locked in `folder`, or where it would be made, and the free space.
HealthCheck CheckFolder(const std::string& name, const std::filesystem::path& folder);

}  // namespace mixerbench::harness
