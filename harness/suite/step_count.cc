// SPDX-License-Identifier: Apache-2.0
#include "harness/suite/step_count.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>

#include "base/error.h"

namespace mixerbench::harness {
namespace {

constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();

std::int64_t SaturatingAdd(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? kLargest : sum;
}

std::int64_t SaturatingMultiply(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kLargest : product;
}

void RequireAtMost(std::int64_t value, std::int64_t limit, std::string_view where,
                   const std::string& what) {
  if (value <= limit) return;
  throw ConfigError(where, what + " is at most " + std::to_string(limit));
}

std::int64_t StepsOf(const Segment& segment, const TrainConfig& train) {
  const std::int64_t size = segment.num_examples;
  return size / train.batch_size + (size % train.batch_size != 0 ? 1 : 0);
}

// Of a curriculum every epoch has the steps of one segment.
std::int64_t StepsPerStage(const TaskPlan& task, const TrainConfig& train) {
  const auto num_stages = std::ssize(task.train);
  if (train.steps_per_epoch > 0) {
    throw ConfigError("/train/batch_order",
                      "'stages' passes over finite data; online data (num_examples 0) have no end");
  }
  if (train.num_epochs % num_stages != 0) {
    throw ConfigError("/train/num_epochs", "must be a multiple of " + std::to_string(num_stages) +
                                               ", the segments of which each is a stage");
  }
  const std::int64_t steps = StepsOf(task.train.front(), train);
  for (const Segment& segment : task.train) {
    if (StepsOf(segment, train) == steps) continue;
    throw ConfigError("/task/train/num_examples",
                      "stages need as many batches each: " + std::to_string(steps) + " and " +
                          std::to_string(StepsOf(segment, train)));
  }
  return steps;
}

std::int64_t StepsPerEpoch(const TaskPlan& task, const TrainConfig& train) {
  if (train.batch_order == BatchOrder::kStages) return StepsPerStage(task, train);
  if (train.steps_per_epoch > 0) return train.steps_per_epoch;
  std::int64_t steps = 0;
  for (const Segment& segment : task.train) steps = SaturatingAdd(steps, StepsOf(segment, train));
  return steps;
}

}  // namespace

StepCount CountSteps(const TaskPlan& task, const TrainConfig& train) {
  StepCount count{.per_epoch = StepsPerEpoch(task, train)};
  RequireAtMost(count.per_epoch, kMaxStepsPerEpoch,
                train.steps_per_epoch > 0 ? "/train/steps_per_epoch" : "/task/train/num_examples",
                "the number of steps of an epoch");
  count.total = SaturatingMultiply(count.per_epoch, train.num_epochs);
  if (train.max_steps > 0) count.total = std::min(count.total, train.max_steps);
  RequireAtMost(count.total, kMaxSteps,
                train.max_steps > 0 ? "/train/max_steps" : "/train/num_epochs",
                "the number of steps of all epochs");
  if (train.warmup_steps > 0 && train.warmup_steps >= count.total) {
    throw ConfigError("/train/warmup_steps", "must be below the " + std::to_string(count.total) +
                                                 " steps of the training, which would never reach "
                                                 "the rate of its schedule");
  }
  return count;
}

void CheckDataSizes(const TaskPlan& task) {
  RequireAtMost(task.max_seq_len, kMaxSeqLen, "/task", "the length of a sample");
  const auto check = [](const std::vector<Segment>& segments, const char* where) {
    for (const Segment& segment : segments) {
      RequireAtMost(segment.num_examples, kMaxExamples, where, "a set that is scored");
    }
  };
  check(task.validation, "/task/validation/num_examples");
  check(task.test, "/task/test/num_examples");
}

}  // namespace mixerbench::harness
