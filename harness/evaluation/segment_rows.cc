// SPDX-License-Identifier: Apache-2.0
#include "harness/evaluation/segment_rows.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "io/json.h"

namespace mixerbench::harness {

std::vector<Object> SegmentAxes(const Cell& cell) {
  const std::vector<Segment>& segments = cell.task.test;
  std::set<std::string> varying = {"input_seq_len"};
  const auto compare = [&](const std::vector<Segment>& others) {
    for (const Segment& segment : others) {
      for (const auto& [key, value] : segment.params.as_object()) {
        const Value* first = segments.front().params.Find(key);
        if (!first || !(*first == value)) varying.insert(key);
      }
    }
  };
  compare(segments);
  if (NamesTraining(cell.kind)) compare(cell.task.train);
  std::vector<Object> axes;
  for (const Segment& segment : segments) {
    Object object;
    for (const std::string& key : varying) {
      if (const Value* value = segment.params.Find(key)) object[key] = *value;
    }
    if (cell.write_gate_reset) object[kResetWriteGate] = cell.write_gate_reset->text();
    axes.push_back(std::move(object));
  }
  return axes;
}

std::string AxesText(const Object& axes) {
  std::string text;
  for (const auto& [key, value] : axes) {
    text += (text.empty() ? "" : ", ") + key + " " + io::ValueText(value);
  }
  return text;
}

std::vector<reports::Guess> GuessesOf(const std::vector<tasks::Baseline>& baselines) {
  std::vector<reports::Guess> guesses;
  for (const tasks::Baseline& baseline : baselines) {
    guesses.push_back({.name = baseline.name, .accuracy = baseline.accuracy});
  }
  return guesses;
}

reports::AccuracyRow UnscoredRow(const tasks::Task& task, const Object& axes,
                                 reports::CellState state, const std::string& reason) {
  reports::AccuracyRow row;
  row.axes = axes;
  row.state = state;
  row.reason = reason;
  row.guesses = GuessesOf(task.baselines());
  row.chance = row.guesses.front().accuracy;
  return row;
}

void AddMissingRows(const Cell& cell, const tasks::TaskRegistry& registry,
                    reports::CellResult& result) {
  if (!reports::ScoresTests(result) || !reports::IsFailure(result.state)) return;
  const tasks::TaskEntry& entry = registry.Find(cell.task.name, "/task/name");
  std::int64_t longest_trained = 0;
  for (const Segment& segment : cell.task.train) {
    longest_trained =
        std::max(longest_trained, entry.create(segment.params, "/task")->shape().seq_len);
  }
  const std::vector<Object> axes = SegmentAxes(cell);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const bool has_row =
        std::any_of(result.accuracy.begin(), result.accuracy.end(),
                    [&](const auto& row) { return row.slice.empty() && row.axes == axes[i]; });
    if (has_row) continue;
    const auto task = entry.create(cell.task.test[i].params, "/task");
    result.accuracy.push_back(UnscoredRow(*task, axes[i], result.state, result.reason));
    result.accuracy.back().extrapolated = task->shape().seq_len > longest_trained;
  }
}

}  // namespace mixerbench::harness
