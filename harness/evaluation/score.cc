// SPDX-License-Identifier: Apache-2.0
#include "harness/evaluation/score.h"

#include <algorithm>
#include <cmath>

#include "harness/evaluation/segment_rows.h"
#include "reports/statistics/statistics.h"

namespace mixerbench::harness {

Scorer::Scorer(const tasks::Task& task)
    : task_(&task), keys_(task.slice_keys()), baselines_(task.baselines()) {
  for (const auto& key : keys_) slices_.emplace_back(key.buckets.size());
}

void Scorer::Count(Tally& tally, std::int32_t label, std::int64_t prediction, double nll,
                   double chance) {
  const bool correct = prediction == label;
  tally.samples.back().num_correct += correct ? 1 : 0;
  ++tally.samples.back().num_scored;
  tally.nll += nll;
  tally.sum_of_chances += chance;
  tally.classes.Add(label, prediction);
}

void Scorer::Add(std::span<const std::int32_t> inputs, std::span<const std::int32_t> labels,
                 std::span<const std::int64_t> predictions, std::span<const float> nll) {
  std::vector<std::int32_t> buckets(predictions.size() * keys_.size());
  task_->AssignSlices(inputs, labels, buckets);
  all_.samples.emplace_back();
  std::vector<std::vector<bool>> opened(keys_.size());
  for (std::size_t key = 0; key < keys_.size(); ++key)
    opened[key].resize(keys_[key].buckets.size());
  std::size_t scored = 0;
  for (std::size_t t = 0; t < labels.size(); ++t) {
    const std::int32_t label = labels[t];
    if (label == tasks::kIgnore) continue;
    finite_ = finite_ && std::isfinite(nll[scored]);
    const double chance = baselines_.front().AccuracyAt(static_cast<std::int64_t>(t), label);
    Count(all_, label, predictions[scored], nll[scored], chance);
    if (scored == 0) batches_.BeginSample();
    batches_.Add(label, predictions[scored]);
    for (std::size_t key = 0; key < keys_.size(); ++key) {
      const std::int32_t bucket = buckets[scored * keys_.size() + key];
      if (bucket < 0) continue;
      const auto b = static_cast<std::size_t>(bucket);
      Tally& tally = slices_[key][b];
      if (!opened[key][b]) {
        tally.samples.emplace_back();
        opened[key][b] = true;
      }
      Count(tally, label, predictions[scored], nll[scored], chance);
    }
    ++scored;
  }
}

reports::AccuracyRow Scorer::Row(const Tally& tally, const Object& axes) const {
  reports::AccuracyRow row;
  row.axes = axes;
  row.chance = baselines_.front().accuracy;
  row.num_sequences = static_cast<std::int64_t>(tally.samples.size());
  for (const auto& sample : tally.samples) {
    row.num_scored += sample.num_scored;
    row.num_correct += sample.num_correct;
  }
  if (row.num_scored == 0) {
    row.state = reports::CellState::kSkipped;
    row.reason = "no scored positions";
    return row;
  }
  std::int64_t whole = 0;
  double shares = 0;
  std::vector<reports::Score> scores;
  for (const auto& sample : tally.samples) {
    scores.push_back({.value = static_cast<double>(sample.num_correct),
                      .size = static_cast<double>(sample.num_scored)});
    if (sample.num_correct == sample.num_scored) ++whole;
    shares += static_cast<double>(sample.num_correct) / static_cast<double>(sample.num_scored);
  }
  const auto n = static_cast<double>(row.num_sequences);
  row.accuracy = static_cast<double>(row.num_correct) / static_cast<double>(row.num_scored);
  row.accuracy_per_example = shares / n;
  row.accuracy_macro = tally.classes.Mean();
  row.sequence_accuracy = static_cast<double>(whole) / n;
  if (std::isfinite(tally.nll)) {
    // The log softmax of a certain answer may round to just above 0.
    row.nll = std::max(0.0, tally.nll / static_cast<double>(row.num_scored));
  } else {
    row.state = reports::CellState::kDiverged;
    row.reason = "a loss in this segment is not finite";
  }
  row.ci_items = reports::ShareInterval(scores);
  row.ci_sequences = reports::Wilson(whole, row.num_sequences);
  return row;
}

std::vector<reports::AccuracyRow> Scorer::Rows(const Object& axes) const {
  std::vector<reports::AccuracyRow> rows = {Row(all_, axes)};
  rows.front().guesses = GuessesOf(baselines_);
  if (rows.front().accuracy_macro) rows.front().accuracy_macro_batched = batches_.Mean();
  for (std::size_t key = 0; key < keys_.size(); ++key) {
    for (std::size_t bucket = 0; bucket < keys_[key].buckets.size(); ++bucket) {
      const Tally& tally = slices_[key][bucket];
      if (tally.samples.empty()) continue;
      rows.push_back(Row(tally, axes));
      if (baselines_.front().accuracy_at) {
        rows.back().chance = tally.sum_of_chances / static_cast<double>(rows.back().num_scored);
      }
      rows.back().slice = keys_[key].name;
      rows.back().bucket = keys_[key].buckets[bucket];
    }
  }
  return rows;
}

}  // namespace mixerbench::harness
