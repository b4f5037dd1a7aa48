// SPDX-License-Identifier: Apache-2.0
#include "reports/view/time_table.h"

#include <cstddef>
#include <map>
#include <utility>

#include "reports/view/spent.h"

namespace mixerbench::reports {
namespace {

// The sum is known when all of it is.
void AddEnergy(const Spent& spent, TimeRow& row) {
  const bool is_first = row.num_cells == 0;
  if (spent.energy_j && (is_first || row.energy_j)) {
    row.energy_j = row.energy_j.value_or(0) + *spent.energy_j;
  } else {
    row.energy_j.reset();
  }
}

}  // namespace

std::vector<TimeRow> TimesByMixer(const SweepReport& report) {
  std::map<std::pair<std::string, std::string>, TimeRow> rows;
  const std::vector<Spent> spent = SpentByCell(report);
  for (std::size_t i = 0; i < report.cells.size(); ++i) {
    const CellResult& cell = report.cells[i];
    if (!spent[i].phases) continue;
    const CellName name = SplitCellName(cell.name);
    TimeRow& row = rows[{name.task, name.mixer}];
    row.task = name.task;
    row.mixer = name.mixer;
    AddEnergy(spent[i], row);
    ++row.num_cells;
    row.num_steps += spent[i].num_steps;
    for (const auto phase :
         {&PhaseTimes::setup_s, &PhaseTimes::capture_s, &PhaseTimes::train_s,
          &PhaseTimes::validation_s, &PhaseTimes::test_s, &PhaseTimes::checkpoint_s}) {
      row.phases.*phase += (*spent[i].phases).*phase;
    }
  }
  std::vector<TimeRow> sorted;
  for (auto& [key, row] : rows) sorted.push_back(std::move(row));
  return sorted;
}

std::optional<double> TotalEnergy(const SweepReport& report) {
  double joules = 0;
  const std::vector<Spent> spent = SpentByCell(report);
  for (std::size_t i = 0; i < report.cells.size(); ++i) {
    if (report.cells[i].wall_s == 0) continue;  // nothing ran; one that crashed has its seconds
    if (!spent[i].energy_j) return std::nullopt;
    joules += *spent[i].energy_j;
  }
  return joules;
}

}  // namespace mixerbench::reports
