// SPDX-License-Identifier: Apache-2.0
#include "harness/suite/data.h"

#include <algorithm>
#include <span>

#include "base/sha256.h"

namespace mixerbench::harness {

tasks::PhiloxKey SampleKey(const tasks::Task& task, std::uint64_t seed, tasks::Split split) {
  return tasks::DeriveKey(task.canon(), seed, static_cast<std::uint64_t>(split));
}

std::string HashSamples(const tasks::Task& task, std::uint64_t seed, tasks::Split split,
                        std::int64_t first, std::int64_t count) {
  const auto num_tokens = static_cast<std::size_t>(count * task.shape().seq_len);
  std::vector<std::int32_t> inputs(num_tokens), labels(num_tokens);
  tasks::GenerateOnCpu(task,
                       {.key = SampleKey(task, seed, split),
                        .first = static_cast<std::uint64_t>(first),
                        .count = count},
                       inputs, labels);
  Sha256 hash;
  hash.Update(std::as_bytes(std::span(inputs)));
  hash.Update(std::as_bytes(std::span(labels)));
  return hash.Hex();
}

bool HasAnswersInInput(const tasks::Task& task, const tasks::PhiloxKey& key) {
  constexpr std::int64_t kSamples = 8;
  const std::int64_t seq_len = task.shape().seq_len;
  std::vector<std::int32_t> inputs(static_cast<std::size_t>(kSamples * seq_len));
  std::vector<std::int32_t> labels(inputs.size());
  tasks::GenerateOnCpu(task, {.key = key, .count = kSamples}, inputs, labels);
  for (auto sample = inputs.begin(); sample != inputs.end(); sample += seq_len) {
    for (std::int64_t t = 0; t < seq_len; ++t) {
      const std::int32_t answer = labels[static_cast<std::size_t>(sample - inputs.begin() + t)];
      if (std::find(sample, sample + t + 1, answer) != sample + t + 1) return true;
    }
  }
  return false;
}

std::vector<BatchSlot> EpochBatches(const std::vector<std::int64_t>& sizes,
                                    const TrainConfig& train, std::uint64_t seed,
                                    std::int64_t epoch) {
  const std::int64_t batch_size = train.batch_size;
  const bool has_stages = train.batch_order == BatchOrder::kStages;
  const auto stage = static_cast<std::size_t>(epoch * std::ssize(sizes) / train.num_epochs);
  std::vector<BatchSlot> batches;
  for (std::size_t segment = 0; segment < sizes.size(); ++segment) {
    if (has_stages && segment != stage) continue;
    for (std::int64_t first = 0; first < sizes[segment]; first += batch_size) {
      batches.push_back({segment, static_cast<std::uint64_t>(first),
                         std::min(batch_size, sizes[segment] - first)});
    }
  }
  if (train.batch_order == BatchOrder::kFixed) return batches;
  const tasks::SampleStream stream{
      tasks::DeriveKey("batches", seed, static_cast<std::uint64_t>(tasks::Split::kTrain)),
      static_cast<std::uint64_t>(epoch)};
  std::vector<BatchSlot> shuffled;
  shuffled.reserve(batches.size());
  for (std::size_t i = 0; i < batches.size(); ++i) {
    shuffled.push_back(batches[tasks::Feistel(stream, tasks::kOrderStream, batches.size(), i)]);
  }
  return shuffled;
}

tasks::SampleOrder EpochOrder(std::int64_t size, BatchOrder order, std::uint64_t seed,
                              std::int64_t epoch) {
  if (order != BatchOrder::kShuffleExamples && order != BatchOrder::kStages) return {};
  return {.size = static_cast<std::uint64_t>(size),
          .key = tasks::DeriveKey("order", seed, static_cast<std::uint64_t>(tasks::Split::kTrain)),
          .epoch = static_cast<std::uint64_t>(epoch)};
}

std::uint64_t DeriveSeed(std::uint64_t seed, const char* purpose, std::uint64_t counter) {
  const auto key = tasks::DeriveKey(purpose, seed, counter);
  return (std::uint64_t{key.k1} << 32) | key.k0;
}

}  // namespace mixerbench::harness
