// SPDX-License-Identifier: Apache-2.0
#include "gate/verdict/training_scores.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "gate/statistics/paired_mean.h"
#include "io/json.h"
#include "reports/result/result_json.h"
#include "reports/summary/sweep_report.h"

namespace mixerbench::gate {
namespace {

using reports::AccuracyRow;
using reports::CellResult;
using reports::CellState;

// Steps that every seed of the experiment had: those that were planned, or, of results that do not
// tell, the most that any of them did.
struct Budget {
  std::int64_t steps = 1;
  bool is_planned = false;
};

Budget BudgetOf(const Experiment& experiment) {
  Budget budget;
  for (const CellPair& pair : experiment.pairs) {
    for (const CellResult* cell : {pair.base, pair.candidate}) {
      budget.steps = std::max({budget.steps, cell->step, cell->planned_steps.value_or(0)});
      budget.is_planned |= cell->planned_steps.has_value();
    }
  }
  return budget;
}

bool IsWhole(const AccuracyRow& row) { return row.slice.empty(); }

// What a row counts as: a failure is guessing.
double AccuracyOf(const AccuracyRow& row) {
  return row.state == CellState::kCompleted ? row.accuracy.value_or(row.chance) : row.chance;
}

// Mean of value(row) over the segments that count.
template <typename Value>
std::optional<double> MeanOverSegments(const CellResult& cell, Value value) {
  for (const bool with_extrapolated : {false, true}) {
    double sum = 0;
    std::int64_t count = 0;
    for (const AccuracyRow& row : cell.accuracy) {
      if (!IsWhole(row) || (row.extrapolated && !with_extrapolated)) continue;
      sum += value(row);
      ++count;
    }
    if (count > 0) return sum / static_cast<double>(count);
  }
  return std::nullopt;
}

double Chance(const AccuracyRow& row) { return row.chance; }

double StepsWidth(const CellResult& cell, std::int64_t steps) {
  std::int64_t before = 0;
  bool is_evaluated = false;
  for (const reports::LearningPoint& point : cell.learning_curve) {
    if (!point.validation_accuracy) continue;
    if (point.step < steps) before = point.step;
    is_evaluated |= point.step == steps;
  }
  if (!is_evaluated) return 0;
  // Reached by the first evaluation, it is as if there had been one at half of its steps.
  const double from = before > 0 ? static_cast<double>(before) : static_cast<double>(steps) / 2;
  return std::log(static_cast<double>(steps) / from);
}

SideScore ScoreOf(const CellResult& cell, const CellResult& other, Budget budget) {
  SideScore score;
  score.budget = static_cast<double>(budget.steps);
  score.is_budget_planned = budget.is_planned;
  if (cell.state == CellState::kCompleted) {
    if (cell.steps_to_threshold) {
      score.steps = std::max<std::int64_t>(1, *cell.steps_to_threshold);
      score.steps_width = StepsWidth(cell, *score.steps);
    }
    score.accuracy = MeanOverSegments(cell, AccuracyOf).value_or(0);
  } else {
    const auto own = MeanOverSegments(cell, Chance);
    score.accuracy = own ? *own : MeanOverSegments(other, Chance).value_or(0);
  }
  return score;
}

std::string AxesText(const AccuracyRow& row) {
  std::string text;
  for (const auto& [axis, value] : row.axes) {
    text += (text.empty() ? "" : " ") + axis + "=" + io::ValueText(value);
  }
  return text.empty() ? "test" : text;
}

std::optional<double> SegmentAccuracy(const CellResult& cell, const AccuracyRow& segment) {
  if (cell.state != CellState::kCompleted) return segment.chance;
  const AccuracyRow* row = reports::WholeSegment(cell, segment.axes);
  if (row == nullptr) return std::nullopt;
  return AccuracyOf(*row);
}

Detail DetailOf(const Experiment& experiment, const AccuracyRow& segment) {
  Detail detail{experiment.cell, AxesText(segment), segment.axes, {}, {}, {}, {}, {}};
  std::vector<double> differences;
  for (const CellPair& pair : experiment.pairs) {
    detail.base.push_back(SegmentAccuracy(*pair.base, segment));
    detail.candidate.push_back(SegmentAccuracy(*pair.candidate, segment));
    if (detail.base.back() && detail.candidate.back()) {
      differences.push_back(*detail.candidate.back() - *detail.base.back());
    }
  }
  if (differences.size() < 2) return detail;
  const PairedMean mean(differences);
  detail.difference = mean.mean();
  if (mean.size() >= kFewestSeeds) {
    detail.low = mean.Interval().low;
    detail.high = mean.Interval().high;
  }
  return detail;
}

}  // namespace

std::vector<TrainingScore> ScoresOf(const Experiment& experiment) {
  const Budget budget = BudgetOf(experiment);
  std::vector<TrainingScore> scores;
  for (const CellPair& pair : experiment.pairs) {
    scores.push_back({ScoreOf(*pair.base, *pair.candidate, budget),
                      ScoreOf(*pair.candidate, *pair.base, budget)});
  }
  return scores;
}

double MeanBaseAccuracy(const std::vector<TrainingScore>& scores) {
  double sum = 0;
  for (const TrainingScore& score : scores) sum += score.base.accuracy;
  return scores.empty() ? 0 : sum / static_cast<double>(scores.size());
}

double GuessingAccuracy(const Experiment& experiment) {
  double guessing = 0;
  for (const CellPair& pair : experiment.pairs) {
    const auto best = MeanOverSegments(*pair.base, [](const AccuracyRow& row) {
      double accuracy = row.chance;
      for (const reports::Guess& guess : row.guesses) accuracy = std::max(accuracy, guess.accuracy);
      return accuracy;
    });
    guessing = std::max(guessing, best.value_or(0));
  }
  return guessing;
}

double WorstSegmentLoss(const CellPair& pair) {
  double worst = 0;
  for (const AccuracyRow& row : pair.base->accuracy) {
    if (!IsWhole(row)) continue;
    const auto candidate = SegmentAccuracy(*pair.candidate, row);
    if (candidate) worst = std::max(worst, AccuracyOf(row) - *candidate);
  }
  return worst;
}

std::vector<Detail> DetailsOf(const Experiment& experiment) {
  std::vector<Detail> details;
  const CellResult* complete = nullptr;
  for (const CellPair& pair : experiment.pairs) {
    if (pair.base->accuracy.size() > (complete ? complete->accuracy.size() : 0)) {
      complete = pair.base;
    }
  }
  if (complete == nullptr) return details;
  for (const AccuracyRow& row : complete->accuracy) {
    if (IsWhole(row)) details.push_back(DetailOf(experiment, row));
  }
  return details;
}

}  // namespace mixerbench::gate
