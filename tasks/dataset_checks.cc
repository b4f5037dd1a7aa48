// SPDX-License-Identifier: Apache-2.0
#include "tasks/dataset_checks.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/check.h"

namespace mixerbench::tasks {
namespace {

// Samples are made in runs of so many tokens.
constexpr std::int64_t kRunTokens = std::int64_t{1} << 21;

// Calls use(inputs, labels) for every sample of `range`, in order.
template <typename Use>
void ForEachSample(const SampleRange& range, int num_threads, const Use& use) {
  const std::int64_t seq_len = range.task.shape().seq_len;
  const auto length = static_cast<std::size_t>(seq_len);
  const std::int64_t run = std::max<std::int64_t>(1, kRunTokens / seq_len);
  std::vector<std::int32_t> inputs;
  std::vector<std::int32_t> labels;
  for (std::int64_t done = 0; done < range.count; done += run) {
    const std::int64_t count = std::min(run, range.count - done);
    inputs.resize(static_cast<std::size_t>(count) * length);
    labels.resize(inputs.size());
    GenerateOnCpu(
        range.task,
        {.key = range.key, .first = range.first + static_cast<std::uint64_t>(done), .count = count},
        inputs, labels, num_threads);
    for (std::size_t row = 0; row < inputs.size(); row += length) {
      use(std::span(inputs).subspan(row, length), std::span(labels).subspan(row, length));
    }
  }
}

std::uint64_t HashTokens(std::span<const std::int32_t> tokens) {
  std::uint64_t hash = 0;
  for (const std::int32_t token : tokens) {
    hash = Mix64((hash ^ static_cast<std::uint32_t>(token)) + 0x9E3779B97F4A7C15u);
  }
  return hash;
}

std::vector<std::int32_t> ScoredPositions(std::span<const std::int32_t> labels) {
  std::vector<std::int32_t> positions;
  for (std::size_t t = 0; t < labels.size(); ++t) {
    if (labels[t] != kIgnore) positions.push_back(static_cast<std::int32_t>(t));
  }
  return positions;
}

Answers AnswersAt(std::span<const std::int32_t> labels, std::span<const std::int32_t> positions) {
  Answers answers;
  for (const std::int32_t t : positions) answers.push_back(labels[static_cast<std::size_t>(t)]);
  return answers;
}

// Differences of sums whose order differs.
constexpr double kRounding = 1e-12;

}  // namespace

std::vector<std::uint64_t> SortedInputHashes(const SampleRange& range, int num_threads) {
  std::vector<std::uint64_t> hashes;
  hashes.reserve(static_cast<std::size_t>(range.count));
  ForEachSample(range, num_threads,
                [&](auto inputs, auto) { hashes.push_back(HashTokens(inputs)); });
  std::sort(hashes.begin(), hashes.end());
  return hashes;
}

std::int64_t NumRepeated(const std::vector<std::uint64_t>& sorted) {
  std::int64_t num_repeated = 0;
  for (std::size_t i = 1; i < sorted.size(); ++i) num_repeated += sorted[i] == sorted[i - 1];
  return num_repeated;
}

std::int64_t NumShared(const std::vector<std::uint64_t>& samples,
                       const std::vector<std::uint64_t>& others) {
  return std::count_if(samples.begin(), samples.end(), [&](std::uint64_t hash) {
    return std::binary_search(others.begin(), others.end(), hash);
  });
}

Estimate OrderFreeAccuracy(const std::vector<Answers>& samples,
                           const std::vector<Answers>& others) {
  std::map<std::int32_t, double> share;
  double num_answers = 0;
  for (const Answers& answers : others) {
    for (const std::int32_t answer : answers) ++share[answer];
    num_answers += static_cast<double>(answers.size());
  }
  double sum = 0;
  double sum_of_squares = 0;
  for (const Answers& answers : samples) {
    Require(!answers.empty(), "a sample without answers");
    double hits = 0;
    for (const std::int32_t answer : answers) {
      const auto found = share.find(answer);
      if (found != share.end()) hits += found->second / num_answers;
    }
    const double accuracy = hits / static_cast<double>(answers.size());
    sum += accuracy;
    sum_of_squares += accuracy * accuracy;
  }
  const auto count = static_cast<double>(samples.size());
  const double mean = sum / count;
  const double variance = std::max(0.0, sum_of_squares / count - mean * mean);
  // The answers drawn from vary as much as those drawn for: twice the variance.
  return {mean, std::sqrt(2 * variance / count)};
}

AnswerCheck CheckAnswers(const SampleRange& range, double num_errors) {
  AnswerCheck check;
  std::vector<Answers> samples;
  ForEachSample(range, 1, [&](auto inputs, auto labels) {
    const std::vector<std::int32_t> positions = ScoredPositions(labels);
    std::vector<std::int32_t> solved(positions.size(), kIgnore);
    range.task.Solve(inputs, positions, solved);
    samples.push_back(AnswersAt(labels, positions));
    for (std::size_t i = 0; i < solved.size(); ++i) {
      check.num_solved += solved[i] == samples.back()[i];
    }
    check.num_scored += std::ssize(positions);
  });
  const double declared = range.task.oracle_accuracy();
  const auto num_scored = static_cast<double>(check.num_scored);
  const double solved_error = std::sqrt(declared * (1 - declared) / num_scored);
  check.is_solved = std::abs(static_cast<double>(check.num_solved) / num_scored - declared) <=
                    num_errors * solved_error;

  std::vector<Answers> others;
  SampleRange next = range;
  next.first += static_cast<std::uint64_t>(range.count);
  ForEachSample(next, 1, [&](auto, auto labels) {
    others.push_back(AnswersAt(labels, ScoredPositions(labels)));
  });
  check.order_free = OrderFreeAccuracy(samples, others);
  // Few samples may hold no coincidence at all and show no variance: that of counting coincidences
  // among all pairs comes on top.
  const double chance = range.task.baselines().front().accuracy;
  const double counting = chance * (1 - chance) / (num_scored * num_scored);
  check.order_free.error = std::hypot(check.order_free.error, std::sqrt(counting));
  check.is_chance_right =
      std::abs(check.order_free.mean - chance) <= num_errors * check.order_free.error + kRounding;
  return check;
}

}  // namespace mixerbench::tasks
