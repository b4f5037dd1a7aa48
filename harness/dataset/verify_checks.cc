// SPDX-License-Identifier: Apache-2.0
#include "harness/dataset/verify_checks.h"

#include <algorithm>
#include <fmt/format.h>
#include <iostream>
#include <span>
#include <utility>

#include "io/text.h"
#include "tasks/generate.h"
#include "tasks/golden.h"

namespace mixerbench::harness {
namespace {

// What is looked at, so that checking ends in minutes whatever the size: input hashes take 8 bytes
// a sample, and an oracle may take long.
constexpr std::int64_t kMaxHashedTokens = std::int64_t{1} << 29;
constexpr std::int64_t kMaxSolvedTokens = std::int64_t{1} << 26;
// Shared inputs above this share deserve a warning (MAD warns at 0.1 % too).
constexpr double kLeakageWarning = 0.001;

// The number of samples at the start of `range` that hold `max_tokens`.
std::int64_t AtMost(const tasks::TaskSamples& range, std::int64_t max_tokens) {
  return std::min(range.count, std::max<std::int64_t>(1, max_tokens / range.task.shape().seq_len));
}

}  // namespace

std::vector<TrainStream> TrainStreams(const tasks::TaskEntry& entry, const std::string& preset_name,
                                      const Value& params, std::uint64_t seed, std::int64_t count) {
  std::vector<TrainStream> streams;
  const auto add = [&](const Value& train_params, std::int64_t num_samples) {
    auto task = entry.create(train_params, "");
    const auto key =
        tasks::DeriveKey(task->canon(), seed, static_cast<std::uint64_t>(tasks::Split::kTrain));
    streams.push_back({std::move(task), key, num_samples});
  };
  for (const tasks::Preset& preset : entry.presets) {
    if (preset.name != preset_name) continue;
    for (const tasks::DataSet& set : tasks::DataSetsOf(preset)) {
      if (set.split != tasks::Split::kTrain) continue;
      add(set.params, set.num_samples > 0 ? set.num_samples : count);
    }
    return streams;
  }
  add(params, count);
  return streams;
}

void CheckRepetitions(const tasks::TaskSamples& range, const std::vector<TrainStream>& train,
                      std::int64_t max_train, int num_threads, Check& check) {
  tasks::TaskSamples counted = range;
  counted.count = AtMost(range, kMaxHashedTokens);
  const auto hashes = tasks::SortedInputHashes(counted, num_threads);
  const std::int64_t repeated = tasks::NumRepeated(hashes);
  check.facts["num_repeated"] = repeated;
  check.text += fmt::format(", {} repeated", repeated);
  if (train.empty()) return;
  std::vector<std::uint64_t> known;
  std::int64_t num_train = 0;
  for (const TrainStream& stream : train) {
    // Inputs of another length are never equal.
    if (stream.task->shape().seq_len != range.task.shape().seq_len) continue;
    tasks::TaskSamples others{*stream.task, stream.key, 0, std::min(stream.count, max_train)};
    others.count = AtMost(others, kMaxHashedTokens);
    const auto more = tasks::SortedInputHashes(others, num_threads);
    known.insert(known.end(), more.begin(), more.end());
    num_train += others.count;
  }
  std::sort(known.begin(), known.end());
  const std::int64_t shared = tasks::NumShared(hashes, known);
  check.facts["num_shared_with_train"] = shared;
  check.facts["num_train"] = num_train;
  check.text += fmt::format(", {} in {} training samples", shared, num_train);
  if (static_cast<double>(shared) > kLeakageWarning * static_cast<double>(counted.count)) {
    std::cerr << fmt::format(
        "warning: {} % of the samples are in the training data: so few inputs are possible\n",
        io::FormatPercent(static_cast<double>(shared) / static_cast<double>(counted.count)));
  }
}

void CheckAgainstOracle(const tasks::TaskSamples& range, Check& check) {
  tasks::TaskSamples solved = range;
  solved.count = AtMost(range, kMaxSolvedTokens);
  const tasks::AnswerCheck answers = tasks::CheckAnswers(solved);
  const double chance = range.task.baselines().front().accuracy;
  check.facts["num_checked"] = answers.num_samples;
  check.facts["num_scored"] = answers.num_scored;
  check.facts["num_solved"] = answers.num_solved;
  check.facts["chance"] = chance;
  check.facts["chance_measured"] = answers.order_free.mean;
  const double per_sample =
      static_cast<double>(answers.num_scored) / static_cast<double>(answers.num_samples);
  check.facts["scored_per_sample"] = per_sample;
  check.text += fmt::format(
      ", {:.4g} scored tokens a sample, {} of {} solved, guessing scores {:.4g} (declared {:.4g})",
      per_sample, answers.num_solved, answers.num_scored, answers.order_free.mean, chance);
  if (!answers.is_solved) {
    check.faults.push_back(
        fmt::format("the oracle should solve a share of {}", range.task.oracle_accuracy()));
  }
  if (!answers.is_chance_right) {
    check.faults.push_back(fmt::format("guessing scores {:.6g} +- {:.2g}, not the declared chance",
                                       answers.order_free.mean, answers.order_free.error));
  }
}

void FindCeiling(const tasks::TaskSamples& range, const std::vector<TrainStream>& train,
                 Check& check) {
  std::vector<tasks::TaskSamples> samples;
  for (const TrainStream& stream : train) {
    samples.push_back({*stream.task, stream.key, 0, stream.count});
  }
  const double ceiling = range.task.Ceiling(samples, range);
  check.facts["ceiling"] = ceiling;
  if (ceiling < 1) {
    check.text += fmt::format(", the training data tell {:.4g} of the answers", ceiling);
  }
}

void CheckRepeatability(const tasks::TaskSamples& range, int num_threads, Check& check) {
  constexpr std::int64_t kRunTokens = std::int64_t{1} << 20;
  const std::int64_t seq_len = range.task.shape().seq_len;
  const std::int64_t run = std::max<std::int64_t>(1, kRunTokens / seq_len);
  std::vector<std::int32_t> inputs, labels, inputs_again, labels_again;
  for (std::int64_t begin = 0; begin < range.count; begin += run) {
    const std::int64_t count = std::min(run, range.count - begin);
    const auto size = static_cast<std::size_t>(count * seq_len);
    inputs.assign(size, 0);
    labels.assign(size, 0);
    inputs_again.assign(size, 0);
    labels_again.assign(size, 0);
    const std::uint64_t first = range.first + static_cast<std::uint64_t>(begin);
    tasks::GenerateOnCpu(range.task, {.key = range.key, .first = first, .count = count}, inputs,
                         labels);
    // Halves, the last one first.
    for (const auto& [from, to] :
         {std::pair(count / 2, count), std::pair(std::int64_t{0}, count / 2)}) {
      const auto offset = static_cast<std::size_t>(from * seq_len);
      const auto length = static_cast<std::size_t>((to - from) * seq_len);
      tasks::GenerateOnCpu(
          range.task,
          {.key = range.key, .first = first + static_cast<std::uint64_t>(from), .count = to - from},
          std::span(inputs_again).subspan(offset, length),
          std::span(labels_again).subspan(offset, length), num_threads + 1);
    }
    if (inputs != inputs_again || labels != labels_again) {
      check.faults.push_back("threads or order change the samples");
      return;
    }
  }
}

}  // namespace mixerbench::harness
