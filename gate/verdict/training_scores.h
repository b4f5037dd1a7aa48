// What a pair of trainings comes to: steps and one accuracy a side.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "gate/verdict/comparison.h"
#include "gate/verdict/pairing.h"

namespace mixerbench::gate {

struct SideScore {
  std::optional<std::int64_t> steps;  // to the threshold; nothing for a seed that failed
  // Log of `steps` over those of the evaluation before, between which the threshold was passed; 0
  // where the curve does not tell.
  double steps_width = 0;
  double budget = 0;               // steps that were there to be done
  bool is_budget_planned = false;  // else the most that any seed of either side did
  // Mean over the segments no longer than what was trained on (over all, where all are longer). A
  // seed that failed has what guessing scores.
  double accuracy = 0;

  double StepsOrBudget() const { return steps ? static_cast<double>(*steps) : budget; }
};

struct TrainingScore {
  SideScore base, candidate;
};

// By seed, as the pairs of the experiment.
std::vector<TrainingScore> ScoresOf(const Experiment& experiment);

double MeanBaseAccuracy(const std::vector<TrainingScore>& scores);

// What guessing scores on the same segments, by the best of the task's guessers.
double GuessingAccuracy(const Experiment& experiment);

// The most that a pair lost in a segment of the test set, as a share of 1; 0 where it lost nothing.
double WorstSegmentLoss(const CellPair& pair);

// Accuracy of every segment by seed, with its paired difference.
std::vector<Detail> DetailsOf(const Experiment& experiment);

}  // namespace mixerbench::gate
