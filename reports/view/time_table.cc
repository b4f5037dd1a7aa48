// SPDX-License-Identifier: Apache-2.0
#include "reports/view/time_table.h"

#include <map>
#include <utility>

namespace mixerbench::reports {
namespace {

// The sum is known when all of it is.
void AddEnergy(const CellResult& cell, TimeRow& row) {
  const bool is_first = row.num_cells == 0;
  if (cell.energy_j && (is_first || row.energy_j)) {
    row.energy_j = row.energy_j.value_or(0) + *cell.energy_j;
  } else {
    row.energy_j.reset();
  }
}

}  // namespace

std::vector<TimeRow> TimesByMixer(const SweepReport& report) {
  std::map<std::pair<std::string, std::string>, TimeRow> rows;
  for (const CellResult& cell : report.cells) {
    if (!cell.phases) continue;
    const CellName name = SplitCellName(cell.name);
    TimeRow& row = rows[{name.task, name.mixer}];
    row.task = name.task;
    row.mixer = name.mixer;
    AddEnergy(cell, row);
    ++row.num_cells;
    if (cell.kind == "train") row.num_steps += cell.step;  // others name those of a training
    for (const auto phase :
         {&PhaseTimes::setup_s, &PhaseTimes::capture_s, &PhaseTimes::train_s,
          &PhaseTimes::validation_s, &PhaseTimes::test_s, &PhaseTimes::checkpoint_s}) {
      row.phases.*phase += (*cell.phases).*phase;
    }
  }
  std::vector<TimeRow> sorted;
  for (auto& [key, row] : rows) sorted.push_back(std::move(row));
  return sorted;
}

std::optional<double> TotalEnergy(const SweepReport& report) {
  double joules = 0;
  for (const CellResult& cell : report.cells) {
    if (cell.wall_s == 0) continue;  // nothing ran; one that crashed has its seconds
    if (!cell.energy_j) return std::nullopt;
    joules += *cell.energy_j;
  }
  return joules;
}

}  // namespace mixerbench::reports
