// Presets that several tasks build alike.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/value.h"
#include "tasks/task.h"

namespace mixerbench::tasks {

// The seeds of the Zoology and the MAD configurations.
inline constexpr std::uint64_t kZoologySeed = 123;
inline constexpr std::uint64_t kMadSeed = 12345;

// A mixture: trained on all of `train` together, tested on each of `test`.
Preset MixturePreset(std::string name, std::vector<Segment> train, std::vector<Segment> test,
                     std::uint64_t seed, std::string reproduces);

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
