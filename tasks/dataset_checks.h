// What can be said of a data set without a model: whether inputs repeat, whether splits share any,
// whether the labels follow from the inputs, and what guessing scores.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "tasks/generate.h"
#include "tasks/task.h"

namespace mixerbench::tasks {

// A 64-bit hash of every sample's inputs, sorted. Two different inputs share one with a probability
// of count^2 / 2^65.
std::vector<std::uint64_t> SortedInputHashes(const TaskSamples& range, int num_threads = 1);

// How many samples repeat an earlier one.
std::int64_t NumRepeated(const std::vector<std::uint64_t>& sorted);

// How many of `samples` occur in `others`. Both sorted.
std::int64_t NumShared(const std::vector<std::uint64_t>& samples,
                       const std::vector<std::uint64_t>& others);

// A share with its standard error.
struct Estimate {
  double mean = 0;
  double error = 0;
};

// The scored positions of one sample and their labels.
struct Answers {
  std::vector<std::int32_t> positions;
  std::vector<std::int32_t> labels;
};

// Accuracy, on the answers of `samples`, of a guesser that names the commonest answer of `others`
// whatever the input: at the position asked for when `baseline` knows it, without the answers that
// it leaves out; those that it is given are right. The error takes answers of one sample together;
// it is at least that of independent answers at the rate of `baseline`, because few samples may
// show no variance at all.
Estimate OrderFreeAccuracy(const std::vector<Answers>& samples, const std::vector<Answers>& others,
                           const Baseline& baseline);

struct AnswerCheck {
  std::int64_t num_samples = 0;
  std::int64_t num_scored = 0;
  std::int64_t num_solved = 0;  // by Task::Solve
  bool is_solved = false;       // as Task::oracle_accuracy() declares
  Estimate order_free;
  bool is_chance_right = false;  // `order_free` is the first baseline
};

// Scored labels of `range` against the oracle and the declared chance. A share is as declared when
// it is within three standard errors. Where one strays, four times as many samples decide that none
// of this has seen, and the result is about those alone: a share that is really another lies twice
// as many errors away then, one that strayed by luck comes back. So a right declaration fails once
// in 10^5 data sets, not once in 400. A share that is declared to be 1 has no luck.
AnswerCheck CheckAnswers(const TaskSamples& range);

}  // namespace mixerbench::tasks
