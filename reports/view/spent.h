// What each cell of a report spent itself.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "reports/summary/sweep_report.h"

namespace mixerbench::reports {

struct Spent {
  double wall_s = 0;
  std::int64_t num_steps = 0;        // of training
  std::optional<PhaseTimes> phases;  // nothing where the cell does not know
  std::optional<double> energy_j;
};

// Of each cell, in their order. A training cell that reused weights holds what their training spent
// too: among the cells of one training it counts once, with the one that trained or else the first.
// Of the others the energy is their part of it by time.
std::vector<Spent> SpentByCell(const SweepReport& report);

}  // namespace mixerbench::reports
