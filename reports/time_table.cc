// SPDX-License-Identifier: Apache-2.0
#include "reports/time_table.h"

#include <fmt/format.h>
#include <map>
#include <utility>

namespace mixerbench::reports {

std::vector<TimeRow> TimesByMixer(const SweepReport& report) {
  std::map<std::pair<std::string, std::string>, TimeRow> rows;
  for (const CellResult& cell : report.cells) {
    if (!cell.phases) continue;
    const CellName name = SplitCellName(cell.name);
    TimeRow& row = rows[{name.task, name.mixer}];
    row.task = name.task;
    row.mixer = name.mixer;
    ++row.num_cells;
    row.num_steps += cell.step;
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

std::vector<std::string> TimeColumns() {
  return {"task",  "mixer",      "cells", "steps",      "setup",    "capture",
          "train", "validation", "test",  "checkpoint", "ms a step"};
}

std::vector<std::string> TimeFields(const TimeRow& row) {
  const auto seconds = [](double value) { return fmt::format("{:.2f}", value); };
  const PhaseTimes& phases = row.phases;
  return {row.task,
          row.mixer,
          std::to_string(row.num_cells),
          std::to_string(row.num_steps),
          seconds(phases.setup_s),
          seconds(phases.capture_s),
          seconds(phases.train_s),
          seconds(phases.validation_s),
          seconds(phases.test_s),
          seconds(phases.checkpoint_s),
          row.num_steps == 0
              ? "–"
              : fmt::format("{:.3g}", 1e3 * phases.train_s / static_cast<double>(row.num_steps))};
}

}  // namespace mixerbench::reports
