// SPDX-License-Identifier: Apache-2.0
#include "harness/cells/run_cell.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/error.h"
#include "harness/device/plans.h"
#include "harness/training/cell_guard.h"
#include "harness/training/memory_need.h"

namespace mixerbench::harness {
namespace {

// Of what a row may have; what else ends a cell (a stop, its time limit) is worse.
int Badness(reports::CellState state) {
  using S = reports::CellState;
  constexpr std::array kFromBest = {S::kCompleted, S::kSkipped,  S::kUnsupported,
                                    S::kOom,       S::kDiverged, S::kError};
  return static_cast<int>(std::find(kFromBest.begin(), kFromBest.end(), state) - kFromBest.begin());
}

}  // namespace

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void AddSpent(double seconds, const std::optional<double>& joules, reports::CellResult& result) {
  const bool is_first = result.wall_s == 0;
  if (joules && (is_first || result.energy_j)) {
    result.energy_j = result.energy_j.value_or(0) + *joules;
  } else {
    result.energy_j.reset();
  }
  result.wall_s += seconds;
}

void CellRun::RequireDeviceCores(GraphContext& graphs) const {
  graphs.CheckPlans(
      [&cores = registries_.cores](const auto& plans) { RefuseFallbacks(plans, cores); });
}

void CellRun::RequireTimeLeft() const {
  if (control_.stop_requested && control_.stop_requested()) throw Interrupted("stopped");
  if (control_.deadline && Clock::now() > *control_.deadline) {
    throw TimedOut("time limit of the cell reached");
  }
}

reports::CellResult RunCell(const Cell& cell, at::Device device, const Registries& registries,
                            const RunControl& control, const ProgressCallback& progress,
                            const std::function<void(const CellRun&)>& work) {
  reports::CellResult result = ResultOf(cell);
  const CellRun run{cell, device, registries, control, progress, result};
  const Outcome outcome = Guard([&] {
    RequireMemory(cell, device, registries);  // builds the model once, which may take a while
    work(run);
  });
  result.state = outcome.state;
  result.reason = outcome.reason;
  result.model.path = PathOf(result.plans);
  return result;
}

void TakeStateOf(const std::string& row, reports::CellState state, const std::string& reason,
                 reports::CellResult& result) {
  if (Badness(state) <= Badness(result.state)) return;
  result.state = state;
  result.reason = row + ": " + reason;
}

void RunOrRefuse(std::int64_t seq_len, std::int64_t built_for, const std::function<void()>& work) {
  try {
    work();
  } catch (const BrokenPrecondition& broken) {
    if (seq_len <= built_for) throw;
    throw ConfigError("", broken.message());
  }
}

}  // namespace mixerbench::harness
