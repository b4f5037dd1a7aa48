// What a suite does with the weights of its trainings: "/evaluate" and "/analyse".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/value.h"
#include "harness/suite/cell.h"
#include "tasks/task.h"

namespace mixerbench::harness {

// An entry of a section: a cell for every training.
struct TrainingUse {
  CellKind kind = CellKind::kEvaluate;
  std::string where;                               // "/evaluate/0"
  Object test;                                     // what it says otherwise than "/task/test"
  std::vector<std::string> taps;                   // kAnalyse only: names, or kAllTaps
  std::optional<WriteGateReset> write_gate_reset;  // kEvaluate only
};

// Of a whole suite, in order. Throws ConfigError.
std::vector<TrainingUse> ParseTrainingUses(const Value& document);

// The cell that uses the training of `trained` so; `task` is the "/task" that this came of. Throws
// ConfigError.
Cell UseTraining(const Cell& trained, const TrainingUse& use, const Value& task,
                 const tasks::TaskRegistry& registry);

}  // namespace mixerbench::harness
