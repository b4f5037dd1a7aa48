// Presets that several tasks build alike.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/value.h"
#include "tasks/task.h"

namespace mixerbench::tasks {

// The seeds of the Zoology and the MAD configurations.
inline constexpr std::uint64_t kZoologySeed = 123;
inline constexpr std::uint64_t kMadSeed = 12345;

// A mixture: trained on all of `train` together, tested on each of `test`.
Preset MixturePreset(std::string name, std::vector<Segment> train, std::vector<Segment> test,
                     std::string reproduces, std::uint64_t seed = 0);

// A segment of `num_samples` for each of `values`, with the options params(value).
template <typename Params>
std::vector<Segment> EachSegment(const std::vector<std::int64_t>& values, std::int64_t num_samples,
                                 const Params& params) {
  std::vector<Segment> segments;
  for (const std::int64_t value : values) segments.push_back({params(value), num_samples});
  return segments;
}

// Zoology's mixture of 2026 for a task of input_seq_len and num_kv_pairs, which are what
// segment(input_seq_len, num_kv_pairs, num_samples) gets.
template <typename MakeSegment>
Preset ZoologyMixture(std::string name, std::string reproduces, const MakeSegment& segment) {
  return MixturePreset(
      std::move(name),
      {segment(64, 4, 100000), segment(128, 9, 20000), segment(256, 16, 20000),
       segment(256, 25, 20000), segment(256, 36, 20000)},
      {segment(64, 4, 1000), segment(64, 9, 1000), segment(128, 16, 1000), segment(256, 36, 1000),
       segment(512, 64, 1000), segment(1024, 144, 1000), segment(2048, 256, 1000)},
      std::move(reproduces), kZoologySeed);
}

// The difficulty grid of a MAD task: a baseline, and one option changed at a time.
class MadGrid {
 public:
  // family: "mad/cr"; baseline: every option of the task. Adds "<family>/baseline".
  MadGrid(std::string family, const Value& baseline, std::int64_t num_train,
          std::string reproduces);

  // Adds "<family>/<option>-<value>" for each value, which is an integer or a number.
  MadGrid& Vary(const std::string& option, const std::vector<Value>& values);

  // Adds "<family>/num_train-<n>" for the smaller training sets of MAD.
  MadGrid& VaryNumTrain();

  // What all presets so far are trained on.
  MadGrid& TrainOn(LabelMode labels);

  const std::vector<Preset>& presets() const { return presets_; }

 private:
  void Add(const std::string& point, Value params, std::int64_t num_train);

  std::string family_;
  Value baseline_;
  std::int64_t num_train_;
  std::string reproduces_;
  std::vector<Preset> presets_;
};

}  // namespace mixerbench::tasks
