// What can be said of a data set without a model: whether inputs repeat, whether splits share any,
// whether the labels follow from the inputs, and what guessing scores.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "tasks/generate.h"
#include "tasks/task.h"

namespace mixerbench::tasks {

// Consecutive samples of one stream.
struct TaskSamples {
  const Task& task;
  PhiloxKey key;
  std::uint64_t first = 0;
  std::int64_t count = 0;
};

// A 64-bit hash of every sample's inputs, sorted. Two different inputs share one with a probability
// of count^2 / 2^65.
std::vector<std::uint64_t> SortedInputHashes(const TaskSamples& range, int num_threads = 1);

// How many samples repeat an earlier one.
std::int64_t NumRepeated(const std::vector<std::uint64_t>& sorted);

// How many of `samples` occur in `others`. Both sorted.
std::int64_t NumShared(const std::vector<std::uint64_t>& samples,
                       const std::vector<std::uint64_t>& others);

// A mean over samples with its standard error.
struct Estimate {
  double mean = 0;
  double error = 0;
};

// The scored positions of one sample and their labels.
struct Answers {
  std::vector<std::int32_t> positions;
  std::vector<std::int32_t> labels;
};

// Accuracy, on `samples`, of a guesser that names the commonest answer of `others` whatever the
// input: at the position asked for when `baseline` knows it, without the answers that it leaves
// out. The mean is over samples with answers that count; its error is at least that of independent
// answers at the rate of `baseline`, because few samples may show no variance at all.
Estimate OrderFreeAccuracy(const std::vector<Answers>& samples, const std::vector<Answers>& others,
                           const Baseline& baseline);

struct AnswerCheck {
  std::int64_t num_scored = 0;
  std::int64_t num_solved = 0;  // by Task::Solve
  bool is_solved = false;       // as Task::oracle_accuracy() declares
  Estimate order_free;
  bool is_chance_right = false;  // `order_free` is the first baseline
};

// Scored labels of `range` against the oracle and the declared chance. Shares that are declared
// below 1 may differ by `num_errors` standard errors.
AnswerCheck CheckAnswers(const TaskSamples& range, double num_errors = 5);

}  // namespace mixerbench::tasks
