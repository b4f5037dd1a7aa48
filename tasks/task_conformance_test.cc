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

#include "tasks/dataset_checks.h"
#include "tasks/golden.h"
#include "tasks/task_testing.h"

#include "tests/support/catch2.h"

namespace mixerbench::tasks {
namespace {

// Up to max_samples, fewer of long samples: what they share with short ones is shown there.
std::uint64_t NumSamplesWithin(const Task& task, std::int64_t max_samples,
                               std::int64_t max_tokens) {
  return static_cast<std::uint64_t>(
      std::clamp<std::int64_t>(max_tokens / task.shape().seq_len, 1, max_samples));
}

std::uint64_t NumSamples(const Task& task) {
  return NumSamplesWithin(task, 300, std::int64_t{1} << 20);
}

TaskRegistry AllTasks() {
  TaskRegistry registry("task");
  RegisterTasks(registry);
  return registry;
}

// One data set of one preset.
struct Case {
  std::string name;
  const Task& task;
  PhiloxKey key;
  std::uint64_t num_samples;

  // Samples first .. first+count-1.
  std::vector<Sample> Samples(std::uint64_t count, std::uint64_t first = 0) const {
    std::vector<Sample> samples;
    for (std::uint64_t i = 0; i < count; ++i) samples.push_back(MakeSample(task, {key, first + i}));
    return samples;
  }
  std::vector<Sample> Samples() const { return Samples(num_samples); }
};

// Those have text/text_conformance_test.cc.
bool IsText(const TaskEntry& entry) { return entry.create(Object{}, "")->text() != nullptr; }

// The data sets of a task; those that differ in nothing but the number of samples count once. None
// of a text task.
std::vector<DataSet> DistinctDataSets(const TaskEntry& entry) {
  std::vector<DataSet> sets;
  if (IsText(entry)) return sets;
  for (const Preset& preset : entry.presets) {
    for (const DataSet& set : DataSetsOf(preset)) {
      const bool is_seen = std::any_of(sets.begin(), sets.end(), [&](const DataSet& other) {
        return other.params == set.params && other.split == set.split && other.seed == set.seed;
      });
      if (!is_seen) sets.push_back(set);
    }
  }
  return sets;
}

template <typename Check>
void CheckDataSet(const TaskEntry& entry, const DataSet& set, const Check& check,
                  std::uint64_t (*num_samples)(const Task&)) {
  CAPTURE(set.name);
  const auto task = entry.create(set.params, "/params");
  const PhiloxKey key = DeriveKey(task->canon(), set.seed, static_cast<std::uint64_t>(set.split));
  check(Case{set.name, *task, key, num_samples(*task)});
}

// For properties that hold for every sample.
template <typename Check>
void ForEachDataSet(const Check& check) {
  const TaskRegistry registry = AllTasks();
  REQUIRE_FALSE(registry.entries().empty());
  for (const auto& [name, entry] : registry.entries()) {
    for (const DataSet& set : DistinctDataSets(entry)) {
      CheckDataSet(entry, set, check, NumSamples);
    }
  }
}

// For properties that are shares of samples: 10,000 samples of the shortest test set of each task,
// and as many as are quickly made of the others.
template <typename Check>
void ForEachTestSet(const Check& check) {
  const TaskRegistry registry = AllTasks();
  for (const auto& [name, entry] : registry.entries()) {
    std::vector<DataSet> sets = DistinctDataSets(entry);
    std::erase_if(sets, [](const DataSet& set) { return set.split != Split::kTest; });
    if (sets.empty()) continue;
    const auto seq_len = [&entry = entry](const DataSet& set) {
      return entry.create(set.params, "/params")->shape().seq_len;
    };
    std::swap(sets.front(), *std::min_element(sets.begin(), sets.end(), [&](auto& a, auto& b) {
                return seq_len(a) < seq_len(b);
              }));
    CheckDataSet(entry, sets.front(), check, [](const Task&) { return std::uint64_t{10000}; });
    for (std::size_t i = 1; i < sets.size(); ++i) {
      CheckDataSet(entry, sets[i], check, [](const Task& task) {
        return NumSamplesWithin(task, 2000, std::int64_t{1} << 18);
      });
    }
  }
}

bool IsToken(std::int32_t token, std::int64_t vocab_size) {
  return token >= 0 && token < vocab_size;
}

// Unwritten positions hold what is neither (MakeSample).
TEST_CASE("tokens and labels are in the vocabulary, and some positions are scored") {
  ForEachDataSet([](const Case& c) {
    const TaskShape shape = c.task.shape();
    for (const Sample& sample : c.Samples()) {
      REQUIRE(std::all_of(sample.inputs.begin(), sample.inputs.end(),
                          [&](std::int32_t token) { return IsToken(token, shape.vocab_size); }));
      REQUIRE(std::all_of(sample.labels.begin(), sample.labels.end(), [&](std::int32_t label) {
        return label == kIgnore || IsToken(label, shape.vocab_size);
      }));
      const auto num_scored = std::ssize(ScoredPositions(sample));
      REQUIRE(num_scored >= 1);
      REQUIRE(num_scored <= shape.max_num_scored);
    }
  });
}

TEST_CASE("the oracle and an order-free guesser score what the task declares") {
  ForEachTestSet([](const Case& c) {
    REQUIRE_FALSE(c.task.baselines().empty());
    const AnswerCheck check =
        CheckAnswers({c.task, c.key, 0, static_cast<std::int64_t>(c.num_samples)});
    CAPTURE(check.num_samples, check.num_scored, check.num_solved, check.order_free.mean,
            check.order_free.error, c.task.oracle_accuracy(), c.task.baselines().front().accuracy);
    CHECK(check.is_solved);
    CHECK(check.is_chance_right);
  });
}

Answers AnswersOf(const Sample& sample) {
  Answers answers{.positions = ScoredPositions(sample), .labels = {}};
  for (const std::int32_t position : answers.positions) {
    answers.labels.push_back(sample.labels[static_cast<std::size_t>(position)]);
  }
  return answers;
}

// Those that lie in one bucket of one slice key.
Answers AnswersIn(const Task& task, const Sample& sample, std::size_t key, std::int32_t bucket) {
  const Answers all = AnswersOf(sample);
  const std::size_t num_keys = task.slice_keys().size();
  std::vector<std::int32_t> buckets(all.labels.size() * num_keys);
  task.AssignSlices(sample.inputs, sample.labels, buckets);
  Answers inside;
  for (std::size_t i = 0; i < all.labels.size(); ++i) {
    if (buckets[i * num_keys + key] != bucket) continue;
    inside.positions.push_back(all.positions[i]);
    inside.labels.push_back(all.labels[i]);
  }
  return inside;
}

// None without answers.
std::optional<double> MeanAccuracyAt(const Baseline& baseline,
                                     const std::vector<Answers>& samples) {
  double sum = 0;
  double count = 0;
  for (const Answers& answers : samples) {
    for (std::size_t i = 0; i < answers.labels.size(); ++i, ++count) {
      sum += baseline.AccuracyAt(answers.positions[i], answers.labels[i]);
    }
  }
  return count == 0 ? std::nullopt : std::optional(sum / count);
}

TEST_CASE("an order-free guesser scores in every slice what the task declares there") {
  ForEachTestSet([](const Case& c) {
    constexpr std::uint64_t kMaxSamples = 400;
    constexpr double kMaxErrors = 4.5;  // in none of hundreds of buckets
    constexpr double kRounding = 1e-9;
    const std::vector<Sample> samples = c.Samples(std::min(c.num_samples, kMaxSamples));
    std::vector<Answers> others;
    for (const Sample& other : c.Samples(c.num_samples, samples.size())) {
      others.push_back(AnswersOf(other));
    }
    const std::vector<SliceKey> keys = c.task.slice_keys();
    for (std::size_t key = 0; key < keys.size(); ++key) {
      for (std::size_t bucket = 0; bucket < keys[key].buckets.size(); ++bucket) {
        std::vector<Answers> inside;
        for (const Sample& sample : samples) {
          inside.push_back(AnswersIn(c.task, sample, key, static_cast<std::int32_t>(bucket)));
        }
        Baseline chance = c.task.baselines().front();
        const auto expected = MeanAccuracyAt(chance, inside);
        if (!expected) continue;
        chance.accuracy = *expected;
        const Estimate measured = OrderFreeAccuracy(inside, others, chance);
        CAPTURE(keys[key].name, keys[key].buckets[bucket], *expected, measured.mean,
                measured.error);
        CHECK(std::abs(measured.mean - *expected) <= kMaxErrors * measured.error + kRounding);
      }
    }
  });
}

TEST_CASE("slices put every scored position into a declared bucket or none") {
  ForEachDataSet([](const Case& c) {
    const std::vector<SliceKey> keys = c.task.slice_keys();
    for (const Sample& sample : c.Samples()) {
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
    for (std::uint64_t i = 0; i < std::min<std::uint64_t>(20, c.num_samples); ++i) {
      const Sample scored = MakeSample(c.task, {c.key, i});
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
  if (value.is_int()) {
    const std::int64_t number = value.as_int();
    return {number + 2, number + 1, number - 2, number - 3};  // 4 - 3: squares only
  }
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
    if (IsText(entry)) continue;
    // Some options are only valid together (noise needs noise tokens), so they are changed in every
    // preset, and in settings in which another option is changed already.
    std::vector<Object> bases = {Object{}};
    for (const Preset& preset : entry.presets) bases.push_back(preset.params.as_object());
    for (const FieldInfo& field : entry.params) {
      for (const Value& neighbour : Neighbours(entry, field)) {
        const Object changed = {{field.name, neighbour}};
        if (CanonOf(entry, changed)) bases.push_back(changed);
      }
    }
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
