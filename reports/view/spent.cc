// SPDX-License-Identifier: Apache-2.0
#include "reports/view/spent.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>

namespace mixerbench::reports {
namespace {

bool Reuses(const CellResult& cell) { return cell.weights && cell.weights->reused; }

// The cell that a training counts with, by training id.
std::map<std::string, const CellResult*> CountedTrainings(const SweepReport& report) {
  std::map<std::string, const CellResult*> counted;
  for (const CellResult& cell : report.cells) {
    if (cell.kind != "train" || cell.training_id.empty() || IsMissing(cell)) continue;
    const CellResult*& known = counted[cell.training_id];
    if (known == nullptr || (Reuses(*known) && !Reuses(cell))) known = &cell;
  }
  return counted;
}

Spent WholeOf(const CellResult& cell) {
  // Other kinds name the steps of a training.
  return {.wall_s = cell.wall_s,
          .num_steps = cell.kind == "train" ? cell.step : 0,
          .phases = cell.phases,
          .energy_j = cell.energy_j};
}

// Without the training, whose end is that of its curve.
Spent OwnOf(const CellResult& cell, const CellResult& training) {
  Spent own = WholeOf(cell);
  own.num_steps = 0;
  const double trained_s =
      cell.learning_curve.empty() ? training.wall_s : cell.learning_curve.back().elapsed_s;
  own.wall_s = std::max(0.0, cell.wall_s - trained_s);
  if (own.energy_j && cell.wall_s > 0) *own.energy_j *= own.wall_s / cell.wall_s;
  if (!own.phases || !training.phases) return own;
  for (const auto phase : {&PhaseTimes::setup_s, &PhaseTimes::capture_s, &PhaseTimes::train_s,
                           &PhaseTimes::validation_s, &PhaseTimes::checkpoint_s}) {
    (*own.phases).*phase = std::max(0.0, (*own.phases).*phase - (*training.phases).*phase);
  }
  return own;
}

}  // namespace

std::vector<Spent> SpentByCell(const SweepReport& report) {
  const auto counted = CountedTrainings(report);
  std::vector<Spent> spent;
  for (const CellResult& cell : report.cells) {
    const auto training = counted.find(cell.training_id);
    const bool is_again = cell.kind == "train" && Reuses(cell) && training != counted.end() &&
                          training->second != &cell;
    spent.push_back(is_again ? OwnOf(cell, *training->second) : WholeOf(cell));
  }
  return spent;
}

}  // namespace mixerbench::reports
