// Where the time of cells went that train or evaluate, by mixer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reports/summary/sweep_report.h"

namespace mixerbench::reports {

// Sums over the cells of one task and mixer that say where their time went, a training that several
// of them use counted once.
struct TimeRow {
  std::string task;
  std::string mixer;
  std::int64_t num_cells = 0;
  std::int64_t num_steps = 0;
  PhaseTimes phases;
  std::optional<double> energy_j;  // nothing where a cell does not know its own
};

// In order of task and mixer; all cells, also those that `sweep.select` hides elsewhere.
std::vector<TimeRow> TimesByMixer(const SweepReport& report);

// Of all cells, timings too; nothing where one that ran does not know its own.
std::optional<double> TotalEnergy(const SweepReport& report);

inline constexpr const char* kTimeCaption =
    "Seconds, summed over cells; cells that run at the same time each count theirs. Capture: "
    "making "
    "CUDA graphs.";
// With kWh.
inline constexpr const char* kEnergyCaption =
    " Energy is that of the GPU, shared out among cells that run at the same time.";

}  // namespace mixerbench::reports
