// From predictions to accuracy rows: the four accuracies, intervals, chance and slices.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/value.h"
#include "reports/result/result.h"
#include "reports/statistics/class_recall.h"
#include "tasks/task.h"

namespace mixerbench::harness {

// Collects one evaluation segment.
class Scorer {
 public:
  explicit Scorer(const tasks::Task& task);

  // One sample. inputs, labels: [seq_len] in kScored mode; predictions and nll: one per scored
  // position, in order of position.
  void Add(std::span<const std::int32_t> inputs, std::span<const std::int32_t> labels,
           std::span<const std::int64_t> predictions, std::span<const float> nll);

  // The whole segment first, then one row per non-empty slice bucket. `axes` goes into each row.
  std::vector<reports::AccuracyRow> Rows(const Object& axes) const;

  bool finite() const { return finite_; }

 private:
  // Of the scored positions of one sample.
  struct SampleCount {
    std::int64_t num_correct = 0;
    std::int64_t num_scored = 0;
  };

  struct Tally {
    std::vector<SampleCount> samples;  // those that have a scored position here
    double nll = 0;
    double sum_of_chances = 0;
    reports::ClassRecall classes;
  };

  // chance: the probability that guessing is right there.
  static void Count(Tally& tally, std::int32_t label, std::int64_t prediction, double nll,
                    double chance);
  reports::AccuracyRow Row(const Tally& tally, const Object& axes) const;

  const tasks::Task* task_;
  std::vector<tasks::SliceKey> keys_;
  std::vector<tasks::Baseline> baselines_;  // chance first
  Tally all_;
  reports::BatchedClassRecall batches_;
  std::vector<std::vector<Tally>> slices_;  // per key, per bucket
  bool finite_ = true;
};

}  // namespace mixerbench::harness
