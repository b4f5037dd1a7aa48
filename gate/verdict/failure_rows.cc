// SPDX-License-Identifier: Apache-2.0
#include "gate/verdict/failure_rows.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <string>

#include "reports/summary/sweep_report.h"

namespace mixerbench::gate {
namespace {

using reports::CellResult;
using reports::CellState;

// How many seeds, from the first on, a look has counted those of that failed.
std::int64_t SeedsCounted(const std::vector<Row>& learning, const Experiment& experiment) {
  std::int64_t seeds = 0;
  for (const Row& row : learning) {
    const bool counts = SubjectOf(row) == Subject(experiment.cell, experiment.id) &&
                        row.metric != kAccuracyWhenSolved && !row.looks.empty();
    if (counts) seeds = std::max(seeds, row.looks.back().seeds);
  }
  return seeds;
}

// A segment of the test set that completed in base and failed in the candidate; nullptr where there
// is none.
const reports::AccuracyRow* LostSegment(const CellPair& pair) {
  for (const reports::AccuracyRow& row : pair.candidate->accuracy) {
    if (!row.slice.empty() || !reports::IsFailure(row.state)) continue;
    const reports::AccuracyRow* before = reports::WholeSegment(*pair.base, row.axes);
    if (before && before->state == CellState::kCompleted) return &row;
  }
  return nullptr;
}

}  // namespace

std::vector<Row> FailureRows(const std::vector<Experiment>& experiments,
                             const std::vector<Row>& learning) {
  std::vector<Row> rows;
  for (const Experiment& experiment : experiments) {
    const std::int64_t counted = SeedsCounted(learning, experiment);
    std::int64_t completed = 0, failed = 0, open = 0, seed = 0;
    std::map<std::string, std::int64_t> states;
    std::string reason;
    for (const CellPair& pair : experiment.pairs) {
      const bool is_counted = seed++ < counted;
      if (pair.base->state != CellState::kCompleted) continue;
      ++completed;
      const CellResult& candidate = *pair.candidate;
      const bool has_failed = reports::IsFailure(candidate.state);
      const reports::AccuracyRow* const segment = has_failed ? nullptr : LostSegment(pair);
      if (!has_failed && !segment) continue;
      ++failed;
      open += segment || !is_counted;
      ++states[segment ? std::string(NameOf(segment->state)) + " in a test segment"
                       : std::string(NameOf(candidate.state))];
      if (reason.empty()) reason = segment ? segment->reason : candidate.reason;
    }
    if (failed == 0) continue;
    Row row = RowOf(experiment, Gate::kPairing, std::string(kStateMetric));
    row.where = experiment.kind;
    row.test = "exact";
    row.base = fmt::format("{} completed", completed);
    for (const auto& [state, count] : states) {
      row.candidate += fmt::format("{}{} {}", row.candidate.empty() ? "" : ", ", count, state);
    }
    const bool is_whole = completed == static_cast<std::int64_t>(experiment.pairs.size());
    row.verdict = is_whole && failed == completed ? Verdict::kRegression
                  : open == 0                     ? Verdict::kNotGated
                                                  : Verdict::kInconclusive;
    row.say = reason.empty() ? "Without a reason." : reason + (reason.ends_with('.') ? "" : ".");
    if (row.verdict == Verdict::kNotGated) row.say += " They count as unsolved (G3).";
    if (row.verdict == Verdict::kInconclusive && counted > 0 && open < failed) {
      row.say += fmt::format(" {} of them count nowhere.", open);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace mixerbench::gate
