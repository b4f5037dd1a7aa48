// Where the cells of a run folder stand, read while runs may be at work in it.
//
// Nothing is written. That a cell runs is told by its lock, which is asked for, shared and without
// waiting, and given back at once: a run that wants the cell in this very moment looks again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/run/eta.h"
#include "reports/result/result.h"
#include "reports/summary/sweep_report.h"

namespace mixerbench::harness {

// How far the last attempt at a cell came, by its events.
struct AttemptProgress {
  std::int64_t step = 0;
  std::int64_t num_steps = 0;  // at most; 0: no step was reported
  std::optional<double> validation_accuracy;
  double elapsed_s = 0;         // of the attempt, at its last event
  std::int64_t first_step = 0;  // of its first report: it may continue where another stopped
  double first_elapsed_s = 0;
  double silent_s = 0;  // since its last event
};

struct CellStatus {
  reports::CellResult cell;                // its result, or a row that says why there is none
  bool is_running = false;                 // always false on a file system without locks
  std::optional<AttemptProgress> attempt;  // of a cell without result
};

struct FolderStatus {
  std::string name;
  std::vector<CellStatus> cells;  // of the plan, in its order
  // What is to be trained again once it is chosen, or is chosen and not yet entered in the plan.
  std::vector<reports::Reseed> reseeds;
  std::vector<reports::LeftOut> left_out;
};

// Of a folder without plan, of an earlier version: the finished cells. Throws Error(kBadInput) for
// a folder that is none of ours.
FolderStatus ReadStatus(const std::filesystem::path& out);

// "running", or the name of the state.
std::string StateName(const CellStatus& status);
// Cells by StateName.
std::map<std::string, std::size_t> CountStates(const FolderStatus& status);

// Cells that the same command would run: those without a result that stands (standing.h) on which
// nobody works, and those that will be known once others are finished.
std::size_t CountToRun(const FolderStatus& status);
// Cells that --retry failed would run besides.
std::size_t CountToRetry(const FolderStatus& status);

// How long the rest takes when as many cells as now go on at once; nothing when none runs.
std::optional<Eta::Left> TimeLeft(const FolderStatus& status);

}  // namespace mixerbench::harness
