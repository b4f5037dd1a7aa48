// How a report calls the things it shows, in every format alike.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "reports/sweep_report.h"

namespace mixerbench::reports {

// The groups of one task and kind.
struct TaskView {
  std::string task;
  std::string kind;  // "train" or "throughput"
  std::vector<const GroupSummary*> groups;
  // Parts of variants, "d_model=64", that labels leave out: the same in all groups, or chosen.
  std::set<std::string> common;
  std::set<std::string> chosen;   // "lr=0.001"; every value that some group has
  std::set<std::string> varying;  // keys, "d_model", with several values for one mixer
};

// In order of task name; of groups that compete (`sweep.select`) only the selected ones. The report
// must outlive the views.
std::vector<TaskView> TaskViews(const SweepReport& report);

// A mixer's name with what tells the group from the others of the task; marked when limited.
std::string GroupLabel(const TaskView& view, const GroupSummary& group);

// The whole segments of a task over all of its groups, each once; not the buckets of slices.
std::vector<const AccuracyOverSeeds*> WholeSegments(const TaskView& view);

// Groups of a task that stand in one table, mixers in rows: those of one setting ("d_model 64,
// input_seq_len 256"), when there are several mixers and several settings; else all of them.
struct TableView {
  std::string setting;
  TaskView view;
};
std::vector<TableView> TablesOf(const TaskView& view);

// The setting of a group that validation chose, "lr 0.001", or "" when the suite selects nothing.
std::string ChosenText(const TaskView& view, const GroupSummary& group);

// The row of a group for a whole segment, or nullptr.
const AccuracyOverSeeds* FindWhole(const GroupSummary& group, const Object& axes);

// The highest share of a whole segment's answers that the training data of any group tell; nothing
// when that is all of them, or not known.
std::optional<double> CeilingOf(const TaskView& view, const Object& axes);

// What guessing scores on the segments: "chance: uniform over values" first. Absent where a task
// has no such guess.
struct GuessRow {
  std::string name;
  std::vector<std::optional<double>> accuracy;  // by segment
};
std::vector<GuessRow> GuessRows(const std::vector<const AccuracyOverSeeds*>& segments);

// The guess with the highest accuracy, the first of equals; nothing when no guess is known.
std::optional<Guess> StrongestGuess(const std::vector<Guess>& guesses);

// What tables show of an accuracy, in percent; parts that there are not are empty.
struct AccuracyText {
  std::string value;     // "99.8 †", or the name of a state
  std::string seeds;     // "99.4–99.9": the lowest and the highest of two seeds or more
  std::string interval;  // "47.7–100.0": over seeds; of a single seed over items
};
AccuracyText TextOf(const AccuracyOverSeeds& row);

// How to read the accuracies of a task, what is common to all of them, and what was chosen.
std::string AccuracyCaption(const SweepReport& report, const TaskView& view);

// "4/5" and the interval of the rate, "28.3–99.5"; empty when nothing was to be solved.
struct SolvedText {
  std::string count;
  std::string interval;
};
SolvedText TextOf(const std::optional<SolveRate>& rate);

// Every label of the report with a number of its own, for colours that stay the same across charts.
std::map<std::string, int> LabelStyles(const SweepReport& report);

// "input_seq_len 64, num_kv_pairs 4"
std::string AxesText(const Object& axes);

// What a reader must know before the tables: how many planned cells have no result yet, how many
// were limited, and which results lie beside the plan. A sentence each; none when the report is
// whole.
std::vector<std::string> PlanNotes(const SweepReport& report);

// "4 completed, 1 diverged"
std::string StatesText(const GroupSummary& group);

}  // namespace mixerbench::reports
