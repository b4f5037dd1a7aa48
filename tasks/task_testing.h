// What tests of tasks share: samples by value, and lanes made of CPU threads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <barrier>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/sha256.h"
#include "tasks/sampler.h"
#include "tasks/task.h"

namespace mixerbench::tasks {

struct Sample {
  std::vector<std::int32_t> inputs;
  std::vector<std::int32_t> labels;
  friend bool operator==(const Sample&, const Sample&) = default;
};

inline Sample MakeSample(const Task& task, const SampleStream& stream,
                         LabelMode mode = LabelMode::kScored) {
  const TaskShape shape = task.shape();
  // Poison: what a sampler leaves unwritten is neither a token nor a label.
  Sample sample{std::vector<std::int32_t>(static_cast<std::size_t>(shape.seq_len), -7),
                std::vector<std::int32_t>(static_cast<std::size_t>(shape.seq_len), -7)};
  std::vector<std::uint32_t> scratch(static_cast<std::size_t>(shape.scratch_words), 0xABABABABu);
  task.Generate(stream, mode, sample.inputs, sample.labels, scratch);
  return sample;
}

inline Sample MakeSample(const Task& task, std::uint64_t seed, std::uint64_t split,
                         std::uint64_t index, LabelMode mode = LabelMode::kScored) {
  return MakeSample(task, {DeriveKey(task.canon(), seed, split), index}, mode);
}

inline std::vector<std::int32_t> ScoredPositions(const Sample& sample) {
  std::vector<std::int32_t> positions;
  for (std::size_t t = 0; t < sample.labels.size(); ++t) {
    if (sample.labels[t] != kIgnore) positions.push_back(static_cast<std::int32_t>(t));
  }
  return positions;
}

// "8:7167 10:5829"
inline std::string LabelsText(const Sample& sample) {
  std::string text;
  for (const std::int32_t t : ScoredPositions(sample)) {
    text += (text.empty() ? "" : " ") + std::to_string(t) + ":" +
            std::to_string(sample.labels[static_cast<std::size_t>(t)]);
  }
  return text;
}

inline std::string TokensText(std::span<const std::int32_t> tokens) {
  std::string text;
  for (const std::int32_t token : tokens) {
    text += (text.empty() ? "" : " ") + std::to_string(token);
  }
  return text;
}

// Of the tokens as little-endian 32-bit integers.
inline std::string InputsSha256(const Sample& sample) {
  Sha256 hash;
  hash.Update(std::as_bytes(std::span(sample.inputs)));
  return hash.Hex();
}

// The message of the ConfigError that `validate` throws, or "".
inline std::string Rejection(const std::function<void()>& validate) {
  try {
    validate();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

// Upper and lower tail of a chi-square statistic as a normal deviate (Wilson and Hilferty 1931).
inline double ChiSquareDeviate(const std::vector<double>& observed,
                               const std::vector<double>& expected) {
  double statistic = 0;
  for (std::size_t i = 0; i < observed.size(); ++i) {
    statistic += (observed[i] - expected[i]) * (observed[i] - expected[i]) / expected[i];
  }
  const double freedom = static_cast<double>(observed.size() - 1);
  const double variance = 2 / (9 * freedom);
  return (std::cbrt(statistic / freedom) - (1 - variance)) / std::sqrt(variance);
}

// p in (1e-4, 1 - 1e-4). The seeds are fixed, so this either always holds or never.
inline constexpr double kMaxDeviate = 3.719;

// The lanes of a CUDA block, made of CPU threads: shows a missing Sync, and work that depends on
// the number of lanes, on a machine without a GPU.
class ThreadLanes {
 public:
  static constexpr bool kIsParallel = true;
  static constexpr bool kIsWarp = false;

  // What the threads of one sample share: a barrier for each team that they form.
  class Barriers {
   public:
    // The barrier of one of `num_teams` teams, of `size` threads.
    std::barrier<>& Of(std::int64_t num_teams, std::int64_t team, std::int64_t size) {
      const std::lock_guard lock(mutex_);
      return barriers_.try_emplace({num_teams, team}, size).first->second;
    }

   private:
    std::mutex mutex_;
    std::map<std::pair<std::int64_t, std::int64_t>, std::barrier<>> barriers_;
  };

  ThreadLanes(std::int64_t rank, std::int64_t count, Barriers& barriers)
      : ThreadLanes(rank, count, barriers, barriers.Of(1, 0, count)) {}

  template <typename... Steps>
  void Serial(const Steps&... steps) const {
    std::int64_t next = 0;
    ((next++ % count_ == rank_ ? steps() : void()), ...);
  }
  // Teams of lanes that are `num_teams` apart.
  template <typename... Steps>
  void Split(const Steps&... steps) const {
    const auto num_teams = std::min<std::int64_t>(count_, sizeof...(Steps));
    const std::int64_t own = rank_ % num_teams;
    const std::int64_t size = (count_ - own + num_teams - 1) / num_teams;
    const ThreadLanes team(rank_ / num_teams, size, *barriers_,
                           num_teams == 1 ? *barrier_ : barriers_->Of(num_teams, own, size));
    std::int64_t next = 0;
    ((next++ % num_teams == own ? steps(team) : void()), ...);
  }
  template <typename Step>
  void ForEach(std::int64_t count, const Step& step) const {
    for (std::int64_t i = rank_; i < count; i += count_) step(i);
  }
  template <typename Predicate>
  std::uint32_t Count(std::uint32_t count, const Predicate& predicate) const {
    return OneLane{}.Count(count, predicate);
  }
  void Sync() const { barrier_->arrive_and_wait(); }

 private:
  ThreadLanes(std::int64_t rank, std::int64_t count, Barriers& barriers, std::barrier<>& barrier)
      : rank_(rank), count_(count), barriers_(&barriers), barrier_(&barrier) {}

  std::int64_t rank_;
  std::int64_t count_;
  Barriers* barriers_;
  std::barrier<>* barrier_;
};

// The sample as `num_lanes` threads make it together.
template <typename Sampler>
Sample MakeSampleInLanes(const Task& task, const SampleStream& stream, LabelMode mode,
                         std::int64_t num_lanes) {
  const auto& sampled = dynamic_cast<const SampledTask<Sampler>&>(task);
  const Sampler sampler = sampled.SamplerWithTables(task.tables().data());
  const auto length = static_cast<std::size_t>(task.shape().seq_len);
  Sample sample{std::vector<std::int32_t>(length, -7), std::vector<std::int32_t>(length, -7)};
  std::vector<std::uint32_t> scratch(static_cast<std::size_t>(task.shape().scratch_words));
  ThreadLanes::Barriers barriers;
  {
    std::vector<std::jthread> threads;
    for (std::int64_t rank = 0; rank < num_lanes; ++rank) {
      threads.emplace_back([&, rank] {
        sampler.Generate(ThreadLanes(rank, num_lanes, barriers), stream, mode, sample.inputs.data(),
                         sample.labels.data(), scratch.data());
      });
    }
  }
  return sample;
}

// Whether 2, 3 and 8 lanes make the samples 0..9 that one lane makes, in every label mode.
template <typename Sampler>
bool LanesAgree(const Task& task) {
  for (std::uint64_t index = 0; index < 10; ++index) {
    const SampleStream stream{DeriveKey(task.canon(), 5, 0), index};
    for (const LabelMode mode :
         {LabelMode::kScored, LabelMode::kAllTokens, LabelMode::kTargetOnly}) {
      const Sample expected = MakeSample(task, stream, mode);
      for (const std::int64_t num_lanes : {2, 3, 8}) {
        if (MakeSampleInLanes<Sampler>(task, stream, mode, num_lanes) != expected) return false;
      }
    }
  }
  return true;
}

}  // namespace mixerbench::tasks
