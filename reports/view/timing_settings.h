// Which timings of a report compare with each other.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "reports/summary/sweep_report.h"
#include "reports/view/build.h"
#include "reports/view/config_leaves.h"

namespace mixerbench::reports {

// What timings are of besides the mixer, the phase and what each says itself (length, batch, type).
class TimingSettings {
 public:
  explicit TimingSettings(const SweepReport& report);

  // What the cell's name says and, where cells of the report differ in it, the device, the config
  // and the build, as short as tells them apart: "d 64, NVIDIA H200". Equal for cells whose timings
  // compare, empty where all do.
  std::string TextOf(const GroupSummary& group, const CellResult& cell) const;

 private:
  Leaves LeavesOfCell(const CellResult& cell) const;

  CodeIds code_ids_;
  bool is_merged_ = false;
  std::set<std::string> named_;  // keys of names
  std::set<std::string> free_;   // keys of configs in which timings that compare may differ
  std::map<Leaves, std::vector<std::string>> told_;
};

}  // namespace mixerbench::reports
