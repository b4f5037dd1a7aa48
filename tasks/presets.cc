// SPDX-License-Identifier: Apache-2.0
#include "tasks/presets.h"

#include <utility>

#include "tasks/canon.h"

namespace mixerbench::tasks {
namespace {

std::int64_t NumSamples(const std::vector<Segment>& segments) {
  std::int64_t sum = 0;
  for (const Segment& segment : segments) sum += segment.num_samples;
  return sum;
}

}  // namespace

Preset MixturePreset(std::string name, std::vector<Segment> train, std::vector<Segment> test,
                     std::string reproduces, std::uint64_t seed) {
  Preset preset{.name = std::move(name),
                .params = train.front().params,
                .num_train = NumSamples(train),
                .num_test = NumSamples(test),
                .seed = seed,
                .reproduces = std::move(reproduces)};
  preset.train = std::move(train);
  preset.test = std::move(test);
  return preset;
}

MadGrid::MadGrid(std::string family, const Value& baseline, std::int64_t num_train,
                 std::string reproduces)
    : family_(std::move(family)),
      baseline_(baseline),
      num_train_(num_train),
      reproduces_(std::move(reproduces)) {
  Add("baseline", baseline_, num_train_);
}

MadGrid& MadGrid::Vary(const std::string& option, const std::vector<Value>& values) {
  for (const Value& value : values) {
    Value params = baseline_;
    params.as_object()[option] = value;
    Add(option + "-" + FormatReal(value.as_double()), std::move(params), num_train_);
  }
  return *this;
}

MadGrid& MadGrid::VaryNumTrain() {
  for (const std::int64_t num_train : {6400, 3200, 1600, 800}) {
    Add("num_train-" + std::to_string(num_train), baseline_, num_train);
  }
  return *this;
}

MadGrid& MadGrid::TrainOn(LabelMode labels) {
  for (Preset& preset : presets_) preset.train_labels = labels;
  return *this;
}

void MadGrid::Add(const std::string& point, Value params, std::int64_t num_train) {
  constexpr std::int64_t kNumTest = 1280;
  presets_.push_back({.name = family_ + "/" + point,
                      .params = std::move(params),
                      .num_train = num_train,
                      .num_test = kNumTest,
                      .seed = kMadSeed,
                      .reproduces = reproduces_});
}

}  // namespace mixerbench::tasks
