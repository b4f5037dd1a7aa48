// Runs the cells of a suite: worker processes, resume, progress, reports.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "harness/registries.h"
#include "harness/suite.h"

namespace mixerbench::harness {

enum class RetryPolicy {
  kNone,    // a finished cell stays as it is, whatever its state
  kFailed,  // every cell that did not complete runs again
  kAll,     // --fresh
};

struct RunOptions {
  std::string suite;                // a built-in name or a file
  std::string out;                  // "" : out/<suite name>
  std::string device = "auto";
  std::int64_t jobs = 0;            // worker processes; 0: one per core on the CPU, one on CUDA
  SuiteOverrides overrides;
  RetryPolicy retry = RetryPolicy::kNone;
  double cell_timeout_s = 0;        // 0: none
  bool dry_run = false;
  bool throughput_only = false;     // `bench`
  bool quiet = false;
};

// Plans, runs what is not finished and writes the reports. Returns 0, kCellsFailed or
// kStoppedEarly. Throws ConfigError and Error before anything is written.
ExitCode Run(const RunOptions& options, const Registries& registries);

// The other end of a worker's pipes: one line "<cell folder>" in, progress and "done" lines out.
int WorkerMain(const std::string& device, double cell_timeout_s, const Registries& registries);

}  // namespace mixerbench::harness
