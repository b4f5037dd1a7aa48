// SPDX-License-Identifier: Apache-2.0
#include "tasks/drawn_guesses.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <utility>
#include <vector>

namespace mixerbench::tasks {
namespace {

constexpr std::uint64_t kSplit = 15;  // of no data set: user splits start at 16
constexpr std::int64_t kNumTokens = std::int64_t{1} << 19;
constexpr std::int64_t kFewestSamples = 100, kMostSamples = 4000;

// The two commonest of the tokens counted so far.
class Commonest {
 public:
  void Count(std::int32_t token) {
    const std::int64_t count = ++count_of_[token];
    if (token == first_) return;
    if (count > CountOf(first_)) {
      second_ = std::exchange(first_, token);
    } else if (token != second_ && count > CountOf(second_)) {
      second_ = token;
    }
  }

  // kIgnore for none.
  std::int32_t But(std::int32_t token) const { return token == first_ ? second_ : first_; }

 private:
  std::int64_t CountOf(std::int32_t token) const {
    const auto found = count_of_.find(token);
    return found == count_of_.end() ? 0 : found->second;
  }

  std::unordered_map<std::int32_t, std::int64_t> count_of_;
  std::int32_t first_ = kIgnore;
  std::int32_t second_ = kIgnore;
};

}  // namespace

Baseline DrawnGuess(const Task& task, std::string name, const IsHit& is_hit) {
  const TaskShape shape = task.shape();
  const PhiloxKey key = DeriveKey(task.canon(), 0, kSplit);
  const std::int64_t num_samples =
      std::clamp(kNumTokens / shape.seq_len, kFewestSamples, kMostSamples);
  std::vector<std::int32_t> inputs(static_cast<std::size_t>(shape.seq_len));
  std::vector<std::int32_t> labels(inputs.size());
  std::vector<std::uint32_t> scratch(static_cast<std::size_t>(shape.scratch_words));
  std::vector<std::pair<double, double>> hits_of_scored;  // of each sample
  double num_hits = 0;
  double num_scored = 0;
  for (std::int64_t i = 0; i < num_samples; ++i) {
    task.Generate({key, static_cast<std::uint64_t>(i)}, LabelMode::kScored, inputs, labels,
                  scratch);
    double hits = 0;
    double scored = 0;
    for (std::size_t t = 0; t < labels.size(); ++t) {
      if (labels[t] == kIgnore) continue;
      ++scored;
      hits += is_hit(inputs, t, labels[t]);
    }
    hits_of_scored.emplace_back(hits, scored);
    num_hits += hits;
    num_scored += scored;
  }
  if (num_scored == 0) return {.name = std::move(name)};
  const double mean = num_hits / num_scored;
  double sum_of_squares = 0;
  for (const auto& [hits, scored] : hits_of_scored) {
    sum_of_squares += (hits - mean * scored) * (hits - mean * scored);
  }
  return {
      .name = std::move(name), .accuracy = mean, .error = std::sqrt(sum_of_squares) / num_scored};
}

Baseline CommonestShown(const Task& task, std::string name,
                        const std::function<bool(std::int32_t token)>& is_candidate,
                        bool but_last) {
  Commonest commonest;
  std::size_t num_read = 0;
  return DrawnGuess(task, std::move(name), [&](auto inputs, std::size_t position, auto label) {
    if (position < num_read) {  // the next sample
      commonest = {};
      num_read = 0;
    }
    for (; num_read <= position; ++num_read) {
      if (is_candidate(inputs[num_read])) commonest.Count(inputs[num_read]);
    }
    return commonest.But(but_last ? inputs[position] : kIgnore) == label;
  });
}

}  // namespace mixerbench::tasks
