// The data of a cell: one task with its train, validation and test segments.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/value.h"
#include "tasks/find_preset.h"
#include "tasks/task.h"

namespace mixerbench::harness {

// Part of a split with one parameter setting.
struct Segment {
  Value params;                   // of the task, resolved
  std::int64_t num_examples = 0;  // 0: online (training only)
};

struct TaskPlan {
  std::string name;
  std::int64_t version = 1;     // of the task
  std::uint64_t data_seed = 0;  // of validation and test; training data follow the cell's seed
  std::vector<Segment> train, validation, test;
  // Follow from the segments; kept because finding them creates every segment's task.
  std::int64_t vocab_size = 0;   // one for all segments
  std::int64_t max_seq_len = 0;  // longest input of any segment
};

// The preset that a suite's "/task" names, if it names one. Throws ConfigError.
std::optional<tasks::FoundPreset> PresetOf(const Value& task, const tasks::TaskRegistry& registry);

// Parses a suite's "/task". Throws ConfigError.
TaskPlan ParseTaskPlan(const Value& task, const tasks::TaskRegistry& registry);

// Without what follows from the segments: the form that identities hash and reports echo.
Value TaskPlanToValue(const TaskPlan& plan);
Value SegmentsToValue(const std::vector<Segment>& segments);

// Inverse of TaskPlanToValue.
TaskPlan TaskPlanFromValue(const Value& value, const tasks::TaskRegistry& registry);

}  // namespace mixerbench::harness
