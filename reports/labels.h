// How a report calls the things it shows, in every format alike.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "reports/sweep_report.h"

namespace mixerbench::reports {

// The groups of one task and kind.
struct TaskView {
  std::string task;
  std::string kind;  // "train" or "throughput"
  std::vector<const GroupSummary*> groups;
};

// In order of task name. The report must outlive the views.
std::vector<TaskView> TaskViews(const SweepReport& report);

// The cells of a group, in order of seed.
std::vector<const CellResult*> CellsOf(const SweepReport& report, const GroupSummary& group);

// A mixer's name; with its variant where the task has several of it.
std::string GroupLabel(const TaskView& view, const GroupSummary& group);

// Every label of the report with a number of its own, for colours that stay the same across charts.
std::map<std::string, int> LabelStyles(const SweepReport& report);

// "input_seq_len 64, num_kv_pairs 4"
std::string AxesText(const Object& axes);

// "4 completed, 1 diverged"
std::string StatesText(const GroupSummary& group);

}  // namespace mixerbench::reports
