// SPDX-License-Identifier: Apache-2.0
#include "gate/verdict/failure_rows.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <string>

namespace mixerbench::gate {
namespace {

using reports::CellResult;
using reports::CellState;

bool IsJudged(const std::vector<Row>& learning, const std::string& experiment_id) {
  return std::any_of(learning.begin(), learning.end(), [&](const Row& row) {
    return row.experiment_id == experiment_id && row.verdict != Verdict::kNotGated;
  });
}

}  // namespace

std::vector<Row> FailureRows(const std::vector<Experiment>& experiments,
                             const std::vector<Row>& learning) {
  std::vector<Row> rows;
  for (const Experiment& experiment : experiments) {
    std::int64_t completed = 0, failed = 0;
    std::map<std::string, std::int64_t> states;
    std::string reason;
    for (const auto& [base, candidate] : experiment.pairs) {
      if (base->state != CellState::kCompleted) continue;
      ++completed;
      if (!reports::IsFailure(candidate->state)) continue;
      ++failed;
      ++states[std::string(NameOf(candidate->state))];
      if (reason.empty()) reason = candidate->reason;
    }
    if (failed == 0) continue;
    Row row = RowOf(experiment, Gate::kPairing, std::string(kStateMetric));
    row.where = experiment.kind;
    row.test = "exact";
    row.base = fmt::format("{} completed", completed);
    for (const auto& [state, count] : states) {
      row.candidate += fmt::format("{}{} {}", row.candidate.empty() ? "" : ", ", count, state);
    }
    const bool is_judged = IsJudged(learning, experiment.id);
    const bool is_whole = completed == static_cast<std::int64_t>(experiment.pairs.size());
    row.verdict = is_whole && failed == completed ? Verdict::kRegression
                  : is_judged                     ? Verdict::kNotGated
                                                  : Verdict::kInconclusive;
    row.say = reason.empty() ? "Without a reason." : reason + (reason.ends_with('.') ? "" : ".");
    if (row.verdict == Verdict::kNotGated) row.say += " They count as unsolved (G3).";
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace mixerbench::gate
