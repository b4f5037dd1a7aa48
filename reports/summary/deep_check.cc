// SPDX-License-Identifier: Apache-2.0
#include "reports/summary/deep_check.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "io/json.h"
#include "reports/statistics/statistics.h"

namespace mixerbench::reports {
namespace {

constexpr double kRounding = 1e-12;  // of shares

class Checker {
 public:
  explicit Checker(const CellResult& cell) : cell_(cell) {}

  std::vector<std::string> Check() {
    for (const AccuracyRow& row : cell_.accuracy) CheckRow(row);
    for (const ThroughputRow& row : cell_.throughput) CheckRow(row);
    for (const TapRow& row : cell_.taps) CheckRow(row);
    CheckSteps();
    return std::move(faults_);
  }

 private:
  void Fault(const std::string& where, const std::string& what) {
    faults_.push_back(cell_.name + ", seed " + std::to_string(cell_.seed) + ", " + where + ": " +
                      what);
  }

  void CheckRow(const AccuracyRow& row) {
    const std::string where = "accuracy at " + io::DumpJson(Value(row.axes)) +
                              (row.slice.empty() ? "" : ", " + row.slice + " " + row.bucket);
    if (!row.guesses.empty() && row.guesses.front().accuracy != row.chance) {
      Fault(where, "chance is not the first of the guesses");
    }
    // Where losses are not finite a segment diverged, and its positions are counted all the same.
    if (row.state != CellState::kCompleted && row.state != CellState::kDiverged) {
      if (row.accuracy) Fault(where, "a value beside the state " + std::string(NameOf(row.state)));
      return;
    }
    if (row.num_correct > row.num_scored) Fault(where, "more right than scored");
    if (row.accuracy && row.num_scored > 0 &&
        !AlmostEqual(*row.accuracy,
                     static_cast<double>(row.num_correct) / static_cast<double>(row.num_scored))) {
      Fault(where, "accuracy is not num_correct / num_scored");
    }
    CheckOtherShares(row, where);
    for (const auto* interval : {&row.ci_items, &row.ci_sequences}) {
      const auto& value = interval == &row.ci_items ? row.accuracy : row.sequence_accuracy;
      if (!*interval) continue;
      if (!value || (*interval)->low > *value + kRounding ||
          (*interval)->high < *value - kRounding) {
        Fault(where, "an interval that does not hold its value");
      }
      if ((*interval)->low < 0 || (*interval)->high > 1) {
        Fault(where, "an interval that leaves 0..1");
      }
      if (!value || (*interval)->method != "wilson" || row.num_sequences == 0) continue;
      // Of sequences: all or nothing each.
      const double right = *value * static_cast<double>(row.num_sequences);
      const Interval again = Wilson(std::llround(right), row.num_sequences, (*interval)->level);
      if (!AlmostEqual(again.low, (*interval)->low) ||
          !AlmostEqual(again.high, (*interval)->high)) {
        Fault(where, "Wilson's interval is another");
      }
    }
  }

  // What counts alone say of the other shares; items say what they are (reports/items).
  void CheckOtherShares(const AccuracyRow& row, const std::string& where) {
    if (!row.accuracy || row.num_scored == 0) return;
    const bool is_all_or_nothing = row.num_correct == 0 || row.num_correct == row.num_scored;
    for (const auto* share : {&row.accuracy_per_example, &row.accuracy_macro,
                              &row.accuracy_macro_batched, &row.sequence_accuracy}) {
      if (*share && is_all_or_nothing && !AlmostEqual(**share, *row.accuracy)) {
        Fault(where, "another share than all or no position right gives");
      }
    }
    if (row.sequence_accuracy && row.accuracy_per_example &&
        *row.sequence_accuracy > *row.accuracy_per_example + kRounding) {
      Fault(where, "more samples right than their positions allow");
    }
  }

  void CheckParity(const ThroughputRow& row, const std::string& where) {
    const bool is_completed = row.state == CellState::kCompleted;
    if (is_completed && row.parity_check == "failed") {
      Fault(where, "a time of what does not agree with the reference");
    }
    if (!row.parity) return;
    const Parity& parity = *row.parity;
    // A row that ran out of time may end before the verdict.
    const bool is_judged = is_completed || row.parity_check != "not run";
    if (is_judged && row.parity_check != (parity.error <= parity.tolerance ? "passed" : "failed")) {
      Fault(where, "parity_check is not what error and tolerance say");
    }
    if (parity.num_sequences > row.batch_size || parity.num_tokens > row.seq_len) {
      Fault(where, "more compared than was timed");
    }
  }

  void CheckRow(const ThroughputRow& row) {
    const std::string where = row.phase + " at " + std::to_string(row.seq_len) + " tokens";
    CheckParity(row, where);
    if (row.state != CellState::kCompleted) {
      if (row.median_ms) Fault(where, "a time beside the state " + std::string(NameOf(row.state)));
      return;
    }
    if (row.samples_ms.empty() || !row.median_ms) return Fault(where, "no samples");
    if (!AlmostEqual(Median(row.samples_ms), *row.median_ms)) {
      Fault(where, "not the samples' median");
    }
    if (row.spread_ms && (!AlmostEqual(Percentile(row.samples_ms, 0.2), row.spread_ms->low) ||
                          !AlmostEqual(Percentile(row.samples_ms, 0.8), row.spread_ms->high))) {
      Fault(where, "not the samples' 20th and 80th percentile");
    }
    if (row.tokens_per_second) {
      const auto tokens = static_cast<double>(TimedTokens(row));
      if (!AlmostEqual(1e3 * tokens / *row.median_ms, *row.tokens_per_second)) {
        Fault(where, "tokens_per_second is not the timed tokens / median");
      }
    }
  }

  void CheckRow(const TapRow& row) {
    const std::string where = "tap " + row.tap + (row.path.empty() ? "" : " at " + row.path);
    if (row.state != CellState::kCompleted) {
      if (row.mean) Fault(where, "a value beside the state " + std::string(NameOf(row.state)));
      return;
    }
    if (row.num_not_finite > row.num_values) Fault(where, "more values not finite than there are");
    const bool has_finite = row.num_values > row.num_not_finite;
    if (has_finite != row.mean.has_value()) Fault(where, "a mean without values, or none of some");
    if (!row.mean || !row.std || !row.min || !row.max) return;
    const double rounding = 1e-9 * std::max(1.0, std::abs(*row.mean));
    if (*row.min > *row.mean + rounding || *row.max < *row.mean - rounding) {
      Fault(where, "a mean outside of the extremes");
    }
    if (*row.std > (*row.max - *row.min) / 2 + rounding) {  // Popoviciu's bound
      Fault(where, "a deviation that these extremes do not allow");
    }
  }

  // The first evaluation at or above the threshold.
  void CheckSteps() {
    if (cell_.threshold <= 0) return;
    std::optional<std::int64_t> first;
    for (const LearningPoint& point : cell_.learning_curve) {
      if (!first && point.validation_accuracy && *point.validation_accuracy >= cell_.threshold) {
        first = point.step;
      }
    }
    if (first != cell_.steps_to_threshold) {
      Fault("steps_to_threshold", "not the first point of the curve at the threshold");
    }
  }

  const CellResult& cell_;
  std::vector<std::string> faults_;
};

// Fresh seeds report chosen settings, and have chosen nothing.
std::vector<std::string> PhaseFaults(const SweepReport& report) {
  std::set<std::string> chosen;
  std::set<std::uint64_t> fresh;
  for (const Reseed& reseed : report.reseeds) {
    chosen.insert(reseed.group_id);
    fresh.insert(reseed.seeds.begin(), reseed.seeds.end());
  }
  std::vector<std::string> faults;
  if (report.reseeds.empty()) return faults;
  for (const CellResult& cell : report.cells) {
    if (cell.kind != "train") continue;
    const bool reports = cell.phase == CellPhase::kReport;
    const std::string where = cell.name + ", seed " + std::to_string(cell.seed) + ": ";
    if (cell.phase == CellPhase::kNone) faults.push_back(where + "no phase");
    if (reports != fresh.contains(cell.seed)) {
      faults.push_back(where +
                       (reports ? "reported, and no fresh seed" : "a fresh seed that chose"));
    }
    if (reports && !chosen.contains(cell.group_id)) {
      faults.push_back(where + "fresh, of a setting that was not chosen");
    }
  }
  return faults;
}

}  // namespace

std::vector<std::string> DeepFaults(const SweepReport& report) {
  std::vector<std::string> faults = PhaseFaults(report);
  for (const CellResult& cell : report.cells) {
    const auto found = Checker(cell).Check();
    faults.insert(faults.end(), found.begin(), found.end());
  }
  return faults;
}

}  // namespace mixerbench::reports
