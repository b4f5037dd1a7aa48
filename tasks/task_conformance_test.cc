// What every task must do, asked of every task and preset in the registry.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tasks/golden.h"
#include "tasks/task_testing.h"

#include "tests/support/catch2.h"

namespace mixerbench::tasks {
namespace {

constexpr std::uint64_t kNumSamples = 300;
// Long samples are fewer: what they share with short ones is shown there.
constexpr std::uint64_t kMaxTokens = std::uint64_t{1} << 21;

std::uint64_t NumSamples(const Task& task) {
  const auto seq_len = static_cast<std::uint64_t>(task.shape().seq_len);
  return std::clamp<std::uint64_t>(kMaxTokens / seq_len, 1, kNumSamples);
}

TaskRegistry AllTasks() {
  TaskRegistry registry("task");
  RegisterTasks(registry);
  return registry;
}

// One data set of one preset, with its first samples.
struct Case {
  std::string name;
  const Task& task;
  PhiloxKey key;
  std::vector<Sample> samples;
};

template <typename Check>
void ForEachDataSet(const Check& check) {
  const TaskRegistry registry = AllTasks();
  REQUIRE_FALSE(registry.entries().empty());
  for (const auto& [name, entry] : registry.entries()) {
    for (const Preset& preset : entry.presets) {
      for (const DataSet& set : DataSetsOf(preset)) {
        CAPTURE(set.name);
        const auto task = entry.create(set.params, "/params");
        const PhiloxKey key =
            DeriveKey(task->canon(), set.seed, static_cast<std::uint64_t>(set.split));
        std::vector<Sample> samples;
        for (std::uint64_t i = 0; i < NumSamples(*task); ++i) {
          samples.push_back(MakeSample(*task, {key, i}));
        }
        check(Case{set.name, *task, key, std::move(samples)});
      }
    }
  }
}

bool IsToken(std::int32_t token, std::int64_t vocab_size) {
  return token >= 0 && token < vocab_size;
}

TEST_CASE("every token and label is in the vocabulary, and every position is written") {
  ForEachDataSet([](const Case& c) {
    const TaskShape shape = c.task.shape();
    for (const Sample& sample : c.samples) {
      REQUIRE(std::all_of(sample.inputs.begin(), sample.inputs.end(),
                          [&](std::int32_t token) { return IsToken(token, shape.vocab_size); }));
      REQUIRE(std::all_of(sample.labels.begin(), sample.labels.end(), [&](std::int32_t label) {
        return label == kIgnore || IsToken(label, shape.vocab_size);
      }));
    }
  });
}

TEST_CASE("every sample has at least one scored position and at most the declared number") {
  ForEachDataSet([](const Case& c) {
    for (const Sample& sample : c.samples) {
      const auto num_scored = std::ssize(ScoredPositions(sample));
      REQUIRE(num_scored >= 1);
      REQUIRE(num_scored <= c.task.shape().max_num_scored);
    }
  });
}

TEST_CASE("the oracle reaches its declared accuracy from the visible tokens") {
  ForEachDataSet([](const Case& c) {
    std::int64_t num_scored = 0;
    std::int64_t num_correct = 0;
    for (const Sample& sample : c.samples) {
      const std::vector<std::int32_t> positions = ScoredPositions(sample);
      std::vector<std::int32_t> answers(positions.size(), kIgnore);
      c.task.Solve(sample.inputs, positions, answers);
      for (std::size_t i = 0; i < positions.size(); ++i) {
        num_correct += answers[i] == sample.labels[static_cast<std::size_t>(positions[i])];
      }
      num_scored += std::ssize(positions);
    }
    if (c.task.oracle_accuracy() == 1.0) {
      CHECK(num_correct == num_scored);
    } else {
      const double accuracy = c.task.oracle_accuracy();
      const double sigma = std::sqrt(accuracy * (1 - accuracy) / static_cast<double>(num_scored));
      CHECK(std::abs(static_cast<double>(num_correct) / static_cast<double>(num_scored) -
                     accuracy) <= 3 * sigma);
    }
  });
}

// Expected accuracy, on `samples`, of drawing every answer from the labels of other samples
// whatever the input: the accuracy of a model that knows the distribution of answers alone.
// Returns its mean over samples and the standard error of that mean.
std::pair<double, double> OrderFreeAccuracy(const std::vector<Sample>& samples,
                                            const std::vector<Sample>& others) {
  std::map<std::int32_t, double> share;
  double num_labels = 0;
  for (const Sample& sample : others) {
    for (const std::int32_t t : ScoredPositions(sample)) {
      ++share[sample.labels[static_cast<std::size_t>(t)]];
      ++num_labels;
    }
  }
  double sum = 0;
  double sum_of_squares = 0;
  for (const Sample& sample : samples) {
    double hits = 0;
    const std::vector<std::int32_t> positions = ScoredPositions(sample);
    for (const std::int32_t t : positions) {
      const auto found = share.find(sample.labels[static_cast<std::size_t>(t)]);
      if (found != share.end()) hits += found->second / num_labels;
    }
    const double accuracy = hits / static_cast<double>(positions.size());
    sum += accuracy;
    sum_of_squares += accuracy * accuracy;
  }
  const double count = static_cast<double>(samples.size());
  const double mean = sum / count;
  const double variance = std::max(0.0, sum_of_squares / count - mean * mean);
  // The labels drawn from vary as much as those drawn for: twice the variance.
  return {mean, std::sqrt(2 * variance / count)};
}

TEST_CASE("an order-free guesser scores the first baseline") {
  // Rounding alone, for tasks whose labels leave no variance.
  constexpr double kRounding = 1e-12;
  ForEachDataSet([](const Case& c) {
    if (c.samples.size() < kNumSamples) return;  // too few for a standard error
    std::vector<Sample> others;
    for (std::uint64_t i = 0; i < kNumSamples; ++i) {
      others.push_back(MakeSample(c.task, {c.key, kNumSamples + i}));
    }
    const auto [accuracy, error] = OrderFreeAccuracy(c.samples, others);
    REQUIRE_FALSE(c.task.baselines().empty());
    const double chance = c.task.baselines().front().accuracy;
    CAPTURE(accuracy, error, chance);
    CHECK(std::abs(accuracy - chance) <= 3 * error + kRounding);
  });
}

TEST_CASE("slices put every scored position into a declared bucket or none") {
  ForEachDataSet([](const Case& c) {
    const std::vector<SliceKey> keys = c.task.slice_keys();
    for (const Sample& sample : c.samples) {
      const std::size_t num_scored = ScoredPositions(sample).size();
      std::vector<std::int32_t> buckets(num_scored * keys.size(), -9);
      c.task.AssignSlices(sample.inputs, sample.labels, buckets);
      bool is_valid = true;
      for (std::size_t i = 0; i < buckets.size(); ++i) {
        is_valid &= buckets[i] >= -1 && buckets[i] < std::ssize(keys[i % keys.size()].buckets);
      }
      REQUIRE(is_valid);
    }
  });
}

TEST_CASE("label modes change labels only, and target_only keeps the last answer") {
  // An answer of several tokens is kept whole: a tail of the scored positions.
  ForEachDataSet([](const Case& c) {
    for (std::uint64_t i = 0; i < std::min<std::uint64_t>(20, c.samples.size()); ++i) {
      const Sample& scored = c.samples[i];
      const Sample all = MakeSample(c.task, {c.key, i}, LabelMode::kAllTokens);
      const Sample target = MakeSample(c.task, {c.key, i}, LabelMode::kTargetOnly);
      REQUIRE(all.inputs == scored.inputs);
      REQUIRE(target.inputs == scored.inputs);
      const std::vector<std::int32_t> positions = ScoredPositions(scored);
      REQUIRE(std::all_of(positions.begin(), positions.end(), [&](std::int32_t position) {
        const auto t = static_cast<std::size_t>(position);
        return all.labels[t] == scored.labels[t];
      }));
      REQUIRE(std::find(all.labels.begin(), all.labels.end() - 1, kIgnore) == all.labels.end() - 1);
      const std::vector<std::int32_t> kept = ScoredPositions(target);
      REQUIRE_FALSE(kept.empty());
      REQUIRE(std::ssize(kept) <= std::ssize(positions));
      REQUIRE(std::equal(kept.rbegin(), kept.rend(), positions.rbegin()));
      REQUIRE(std::all_of(kept.begin(), kept.end(), [&](std::int32_t position) {
        const auto t = static_cast<std::size_t>(position);
        return target.labels[t] == scored.labels[t];
      }));
    }
  });
}

TEST_CASE("splits and seeds have streams of their own") {
  const TaskRegistry registry = AllTasks();
  for (const auto& [name, entry] : registry.entries()) {
    CAPTURE(name);
    const auto task = entry.create(Object{}, "/params");
    std::set<std::vector<std::int32_t>> seen;
    for (const std::uint64_t seed : {0, 1}) {
      for (const std::uint64_t split : {0, 1, 2, 16}) {
        for (std::uint64_t index = 0; index < 20; ++index) {
          seen.insert(MakeSample(*task, seed, split, index).inputs);
        }
      }
    }
    CHECK(seen.size() == 2 * 4 * 20);
  }
}

// Other values of an option that may be valid: numbers near the default, the choices of an
// enumeration, the words that presets use.
std::vector<Value> Neighbours(const TaskEntry& entry, const FieldInfo& field) {
  const Value& value = field.default_value;
  if (value.is_bool()) return {!value.as_bool()};
  if (field.type == "number") return {value.as_double() / 2 + 0.25, value.as_double() + 1};
  if (value.is_int()) return {value.as_int() + 2, value.as_int() + 1, value.as_int() - 2};
  std::vector<Value> choices;
  if (field.type == "string") {
    for (const Preset& preset : entry.presets) choices.push_back(*preset.params.Find(field.name));
    return choices;
  }
  const std::string prefix = "one of ";
  REQUIRE(field.type.starts_with(prefix));
  for (std::size_t begin = prefix.size(); begin < field.type.size();) {
    const std::size_t end = std::min(field.type.find('|', begin), field.type.size());
    const std::string choice = field.type.substr(begin, end - begin);
    if (choice != value.as_string()) choices.emplace_back(choice);
    begin = end + 1;
  }
  return choices;
}

// The sampling key's text, or nothing when the options are not valid together.
std::optional<std::string> CanonOf(const TaskEntry& entry, const Object& params) {
  try {
    return entry.create(params, "")->canon();
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

TEST_CASE("every option changes the sampling key or is declared a matter of presentation") {
  const TaskRegistry registry = AllTasks();
  for (const auto& [name, entry] : registry.entries()) {
    // Some options are only valid together (noise needs noise tokens), so every preset is tried.
    std::vector<Object> bases = {Object{}};
    for (const Preset& preset : entry.presets) bases.push_back(preset.params.as_object());
    for (const FieldInfo& field : entry.params) {
      CAPTURE(name, field.name);
      bool is_tried = false;
      bool is_changed = false;
      for (const Object& base : bases) {
        for (const Value& neighbour : Neighbours(entry, field)) {
          Object changed = base;
          changed[field.name] = neighbour;
          const std::optional<std::string> canon = CanonOf(entry, changed);
          if (changed == base || !canon) continue;
          is_tried = true;
          is_changed |= canon != CanonOf(entry, base);
        }
      }
      const bool is_presentation = std::count(entry.presentation_params.begin(),
                                              entry.presentation_params.end(), field.name) > 0;
      CHECK(is_tried);
      CHECK(is_changed != is_presentation);
    }
  }
}

TEST_CASE("presets are complete, valid, and named once") {
  const TaskRegistry registry = AllTasks();
  std::set<std::string> names;
  for (const auto& [name, entry] : registry.entries()) {
    CHECK_FALSE(entry.presets.empty());
    for (const Preset& preset : entry.presets) {
      CAPTURE(preset.name);
      CHECK(names.insert(preset.name).second);
      CHECK(entry.resolve(preset.params, "") == preset.params);
      CHECK(preset.num_train >= 0);
      CHECK(preset.num_test > 0);
      CHECK_FALSE(preset.reproduces.empty());
      CHECK(preset.train.empty() == preset.test.empty());
      for (const auto& [segments, total] :
           {std::pair{preset.train, preset.num_train}, std::pair{preset.test, preset.num_test}}) {
        std::int64_t sum = 0;
        for (const Segment& segment : segments) sum += segment.num_samples;
        CHECK((segments.empty() || sum == total));
      }
    }
  }
}

TEST_CASE("names and aliases name one task, and every task documents itself") {
  const TaskRegistry registry = AllTasks();
  std::set<std::string> names;
  for (const auto& [name, entry] : registry.entries()) {
    CAPTURE(name);
    CHECK(names.insert(name).second);
    for (const std::string& alias : entry.aliases) CHECK(names.insert(alias).second);
    CHECK_FALSE(entry.summary.empty());
    CHECK_FALSE(entry.source.empty());
    for (const FieldInfo& field : entry.params) CHECK_FALSE(field.help.empty());
    CHECK(TaskCodeHash(name).size() == 64);
  }
  CHECK(TaskCodeHash("no such task").empty());
}

TEST_CASE("an unknown option is an error that names its place") {
  const TaskRegistry registry = AllTasks();
  for (const auto& [name, entry] : registry.entries()) {
    const std::string message = Rejection([&] {
      entry.create(Object{{"vocab_sise", 8}}, "/task");
    });
    CHECK(message.starts_with("/task/vocab_sise: unknown parameter 'vocab_sise'"));
  }
}

}  // namespace
}  // namespace mixerbench::tasks
