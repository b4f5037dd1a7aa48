// Runs the cells of a suite: worker processes, resume, progress, reports.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/error.h"
#include "harness/run/options.h"
#include "harness/suite/registries.h"
#include "harness/suite/suite.h"

namespace mixerbench::harness {

// Plans, runs what is not finished and writes the reports. Returns 0, kCellsFailed or
// kStoppedEarly. Throws ConfigError and Error before anything is written.
ExitCode Run(const RunOptions& options, const Registries& registries);

// The same of a suite that ReadSuite gave for these options (enter_plan.h).
ExitCode Run(const RunOptions& options, Suite suite, const Registries& registries);

// The other end of a worker's pipes: one line "ID" in, the name of a cell's folder; "progress ID
// {...}", "done ID", "interrupted ID" and "failed ID reason" out. SIGTERM, SIGUSR1 or SIGHUP: every
// cell saves its state and is interrupted; returns kStoppedEarly.
int WorkerMain(const WorkerOptions& options, const Registries& registries);

}  // namespace mixerbench::harness
