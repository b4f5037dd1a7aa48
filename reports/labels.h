// How a report calls the things it shows, in every format alike.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "reports/sweep_report.h"

namespace mixerbench::reports {

// The groups of one task and kind.
struct TaskView {
  std::string task;
  std::string kind;  // "train" or "throughput"
  std::vector<const GroupSummary*> groups;
  std::map<std::string, std::int64_t> num_groups;  // by mixer
};

// In order of task name; of groups that compete (`sweep.select`) only the selected ones. The report
// must outlive the views.
std::vector<TaskView> TaskViews(const SweepReport& report);

// A mixer's name; with its variant where the task has several of it.
std::string GroupLabel(const TaskView& view, const GroupSummary& group);

// The whole segments of a task over all of its groups, each once; not the buckets of slices.
std::vector<const AccuracyOverSeeds*> WholeSegments(const TaskView& view);

// The row of a group for a whole segment, or nullptr.
const AccuracyOverSeeds* FindWhole(const GroupSummary& group, const Object& axes);

// The highest share of a whole segment's answers that the training data of any group tell; nothing
// when that is all of them, or not known.
std::optional<double> CeilingOf(const TaskView& view, const Object& axes);

// Every label of the report with a number of its own, for colours that stay the same across charts.
std::map<std::string, int> LabelStyles(const SweepReport& report);

// "input_seq_len 64, num_kv_pairs 4"
std::string AxesText(const Object& axes);

// " Best of train.lr by validation accuracy." when the suite selects, else "".
std::string SelectionText(const SweepReport& report);

// What a reader must know before the tables: how many planned cells have no result yet, and which
// results lie beside the plan. A sentence each; none when the report is whole.
std::vector<std::string> PlanNotes(const SweepReport& report);

// "4 completed, 1 diverged"
std::string StatesText(const GroupSummary& group);

}  // namespace mixerbench::reports
