// SPDX-License-Identifier: Apache-2.0
#include "tasks/dataset_checks.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace mixerbench::tasks {
namespace {

// Samples are made in runs of so many tokens.
constexpr std::int64_t kRunTokens = std::int64_t{1} << 21;

// Calls use(inputs, labels) for every sample of `range`, in order.
template <typename Use>
void ForEachSample(const TaskSamples& range, int num_threads, const Use& use) {
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

Answers AnswersOf(std::span<const std::int32_t> labels) {
  Answers answers;
  for (std::size_t t = 0; t < labels.size(); ++t) {
    if (labels[t] == kIgnore) continue;
    answers.positions.push_back(static_cast<std::int32_t>(t));
    answers.labels.push_back(labels[t]);
  }
  return answers;
}

// The commonest answer of some samples; of each position when the baseline knows it.
class Guesser {
 public:
  Guesser(const std::vector<Answers>& samples, const Baseline& baseline) : baseline_(baseline) {
    std::map<std::int32_t, std::map<std::int32_t, std::int64_t>> counts;  // by place and answer
    for (const Answers& answers : samples) {
      for (std::size_t i = 0; i < answers.labels.size(); ++i) {
        if (!IsLearned(answers.labels[i])) continue;
        ++counts[Place(answers.positions[i])][answers.labels[i]];
      }
    }
    for (const auto& [place, count_of] : counts) {
      answer_at_[place] =
          std::max_element(count_of.begin(), count_of.end(), [](const auto& a, const auto& b) {
            return a.second < b.second;
          })->first;
    }
  }

  // Whether the baseline counts this answer.
  bool Counts(std::int32_t label) const { return !Holds(baseline_.without, label); }

  bool IsRight(std::int32_t position, std::int32_t label) const {
    return Holds(baseline_.given, label) || Answer(position) == label;
  }

 private:
  bool IsLearned(std::int32_t label) const {
    return Counts(label) && !Holds(baseline_.given, label);
  }

  static bool Holds(const std::vector<std::int32_t>& answers, std::int32_t label) {
    return std::find(answers.begin(), answers.end(), label) != answers.end();
  }

  std::int32_t Answer(std::int32_t position) const {
    const auto found = answer_at_.find(Place(position));
    return found == answer_at_.end() ? kIgnore : found->second;
  }

  std::int32_t Place(std::int32_t position) const {
    return baseline_.knows_position ? position : 0;
  }

  const Baseline& baseline_;
  std::map<std::int32_t, std::int32_t> answer_at_;
};

// How far a measured share may be from the declared one, in standard errors.
constexpr double kMaxErrors = 3;
// Samples of the second look for each one of the first.
constexpr std::int64_t kSecondLook = 4;
// Differences of sums whose order differs.
constexpr double kRounding = 1e-12;

bool IsAsDeclared(const Estimate& measured, const Estimate& declared) {
  return std::abs(measured.mean - declared.mean) <=
         kMaxErrors * std::hypot(measured.error, declared.error) + kRounding;
}

// One look at `range`. The guesser learns from the samples after it.
AnswerCheck Look(const TaskSamples& range) {
  AnswerCheck check;
  check.num_samples = range.count;
  std::vector<Answers> samples;
  ForEachSample(range, 1, [&](auto inputs, auto labels) {
    const Answers& answers = samples.emplace_back(AnswersOf(labels));
    std::vector<std::int32_t> solved(answers.labels.size(), kIgnore);
    range.task.Solve(inputs, answers.positions, solved);
    for (std::size_t i = 0; i < solved.size(); ++i) {
      check.num_solved += solved[i] == answers.labels[i];
    }
    check.num_scored += std::ssize(solved);
  });
  const double declared = range.task.oracle_accuracy();
  const auto num_scored = static_cast<double>(check.num_scored);
  check.is_solved = IsAsDeclared({static_cast<double>(check.num_solved) / num_scored,
                                  std::sqrt(declared * (1 - declared) / num_scored)},
                                 {declared, 0});
  std::vector<Answers> others;
  TaskSamples next = range;
  next.first += static_cast<std::uint64_t>(range.count);
  ForEachSample(next, 1, [&](auto, auto labels) { others.push_back(AnswersOf(labels)); });
  const Baseline chance = range.task.baselines().front();
  check.order_free = OrderFreeAccuracy(samples, others, chance);
  check.is_chance_right = IsAsDeclared(check.order_free, {chance.accuracy, chance.error});
  return check;
}

}  // namespace

std::vector<std::uint64_t> SortedInputHashes(const TaskSamples& range, int num_threads) {
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

Estimate OrderFreeAccuracy(const std::vector<Answers>& samples, const std::vector<Answers>& others,
                           const Baseline& baseline) {
  const Guesser guesser(others, baseline);
  std::vector<std::pair<double, double>> hits_of_counted;  // of each sample
  double num_hits = 0;
  double num_counted = 0;
  for (const Answers& answers : samples) {
    double hits = 0;
    double counted = 0;
    for (std::size_t i = 0; i < answers.labels.size(); ++i) {
      if (!guesser.Counts(answers.labels[i])) continue;
      ++counted;
      hits += guesser.IsRight(answers.positions[i], answers.labels[i]);
    }
    hits_of_counted.emplace_back(hits, counted);
    num_hits += hits;
    num_counted += counted;
  }
  if (num_counted == 0) return {};
  const double mean = num_hits / num_counted;
  double sum_of_squares = 0;
  for (const auto& [hits, counted] : hits_of_counted) {
    sum_of_squares += (hits - mean * counted) * (hits - mean * counted);
  }
  const double chance = baseline.accuracy;
  return {mean, std::max(std::sqrt(sum_of_squares) / num_counted,
                         std::sqrt(chance * (1 - chance) / num_counted))};
}

AnswerCheck CheckAnswers(const TaskSamples& range) {
  const AnswerCheck check = Look(range);
  const bool may_be_luck = check.is_solved || range.task.oracle_accuracy() < 1;
  if (!may_be_luck || (check.is_solved && check.is_chance_right)) return check;
  TaskSamples unseen = range;
  unseen.first += 2 * static_cast<std::uint64_t>(range.count);
  unseen.count *= kSecondLook;
  return Look(unseen);
}

}  // namespace mixerbench::tasks
