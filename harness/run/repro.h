// Runs a finished cell again and compares bits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/error.h"
#include "harness/run/options.h"
#include "harness/suite/registries.h"

namespace mixerbench::harness {

// Trains and scores one cell of a run folder by its stored configuration, in a temporary folder,
// and compares every number of the result, and the weights where they are kept; the answer is on
// stdout. kOk: the same bits. kNo: others, by the same code and data in the same environment.
// kMissing: others, by another code, data or environment, or there is no result to compare with.
// kCellsFailed: the cell lacked memory or broke down this time. kStoppedEarly: stopped by a signal.
// Throws ConfigError for a cell that is not in the folder.
ExitCode Repro(const ReproOptions& options, const Registries& registries);

}  // namespace mixerbench::harness
