// From predictions to accuracy rows: the four accuracies, intervals, chance and slices.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/value.h"
#include "reports/result/result.h"
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
  // Predictions by class.
  struct ClassCounts {
    std::map<std::int32_t, std::int64_t> hits, misses, false_alarms;

    void Add(std::int32_t label, std::int64_t prediction);
    double MacroRecall() const;
  };

  // Of the scored positions of one sample.
  struct SampleCount {
    std::int64_t num_correct = 0;
    std::int64_t num_scored = 0;
  };

  struct Tally {
    std::vector<SampleCount> samples;  // those that have a scored position here
    double nll = 0;
    double sum_of_chances = 0;
    ClassCounts classes;
  };

  // chance: the probability that guessing is right there.
  static void Count(Tally& tally, std::int32_t label, std::int64_t prediction, double nll,
                    double chance);
  reports::AccuracyRow Row(const Tally& tally, const Object& axes) const;
  // Macro recall of the batch at hand times its samples.
  double BatchSum() const;

  const tasks::Task* task_;
  std::vector<tasks::SliceKey> keys_;
  std::vector<tasks::Baseline> baselines_;  // chance first
  Tally all_;
  ClassCounts batch_;  // of the last batch_size_ samples, less than reports::kMacroBatch
  std::int64_t batch_size_ = 0;
  double full_batches_sum_ = 0;             // BatchSum() of those before
  std::vector<std::vector<Tally>> slices_;  // per key, per bucket
  bool finite_ = true;
};

}  // namespace mixerbench::harness
