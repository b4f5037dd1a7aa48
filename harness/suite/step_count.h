// How long a training is: sizes are multiplied here, once, in checked arithmetic.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "harness/suite/task_plan.h"
#include "harness/suite/train_config.h"

namespace mixerbench::harness {

inline constexpr std::int64_t kMaxStepsPerEpoch = 10'000'000;      // each has a record in memory
inline constexpr std::int64_t kMaxSteps = 1'000'000'000'000;       // of a training
inline constexpr std::int64_t kMaxExamples = 1'000'000'000;        // of a segment that is scored
inline constexpr std::int64_t kMaxSeqLen = std::int64_t{1} << 27;  // tokens of a sample

struct StepCount {
  std::int64_t per_epoch = 0;
  std::int64_t total = 0;  // at most; early stopping may end sooner
};

// Throws ConfigError for a training that does not fit the limits above.
StepCount CountSteps(const TaskPlan& task, const TrainConfig& train);

// The same for the data: their lengths, and how many are scored.
void CheckDataSizes(const TaskPlan& task);

}  // namespace mixerbench::harness
