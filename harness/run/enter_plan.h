// The cells that a run is asked for, and their entry in the plan of its folder.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <c10/core/Device.h>

#include "harness/run/options.h"
#include "harness/suite/registries.h"
#include "harness/suite/suite.h"

namespace mixerbench::harness {

// Where the run begins; of several GPUs the first. Throws as ParseDevice, and ConfigError for a
// CPU where device code is required.
at::Device DeviceOf(const RunOptions& options);

// The cells that the command asks for, as they are on this device. Throws ConfigError and
// Error(kBadInput).
Suite ReadSuite(const RunOptions& options, at::Device device, const Registries& registries);

// Throws what a run of `suite` into `out` would throw before it trains: Error(kOutput) for a folder
// with files that are not ours or for another plan (merge_plan.h), ConfigError for an output that
// would lie in it. Writes nothing.
void CheckEntry(const std::filesystem::path& out, const Suite& suite, const RunOptions& options,
                const Registries& registries);

// Enters the cells of the suite in the plan of the run folder `out`, which is there. What this has
// done to cells of the same trainings, for people: a line each, mostly none.
std::vector<std::string> EnterPlan(const std::filesystem::path& out, const Suite& suite,
                                   const RunOptions& options, const Registries& registries);

}  // namespace mixerbench::harness
