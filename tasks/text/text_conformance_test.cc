// What every text task must do, asked of every text task and preset in the registry.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "tasks/dataset_checks.h"
#include "tasks/golden.h"
#include "tasks/task_testing.h"
#include "tasks/text/shipped_text.h"
#include "tasks/text/text_task.h"

#include "tests/support/catch2.h"

namespace mixerbench::tasks {
namespace {

// The text tasks of the registry.
std::vector<std::pair<std::string, TaskEntry>> TextEntries() {
  TaskRegistry registry("task");
  RegisterTasks(registry);
  std::vector<std::pair<std::string, TaskEntry>> entries;
  for (const auto& [name, entry] : registry.entries()) {
    if (entry.create(Object{}, "")->text() != nullptr) entries.emplace_back(name, entry);
  }
  REQUIRE_FALSE(entries.empty());
  return entries;
}

template <typename Check>
void ForEachDataSet(const Check& check) {
  for (const auto& [name, entry] : TextEntries()) {
    for (const Preset& preset : entry.presets) {
      for (const DataSet& set : DataSetsOf(preset)) {
        CAPTURE(set.name);
        const auto task = entry.create(set.params, "/params");
        check(*task, DeriveKey(task->canon(), set.seed, static_cast<std::uint64_t>(set.split)));
      }
    }
  }
}

std::vector<std::int32_t> Encode(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::int32_t> tokens;
  tokenizer.Encode(text, tokens);
  return tokens;
}

// Both forms of one sample say the same.
void CheckForms(const Task& task, const SampleStream& stream, bool has_bos = false) {
  const TextTask& text = *task.text();
  const Tokenizer& tokenizer = text.tokenizer();
  const TaskShape shape = task.shape();
  const PromptRecord record = text.MakePrompt(stream);
  const std::vector<std::int32_t> prompt = text.MakePromptTokens(stream);
  const std::vector<std::int32_t> answer = Encode(tokenizer, record.answer);
  const Sample sample = MakeSample(task, stream);

  // [prompt, answer, EOS, padding]
  REQUIRE(std::ssize(prompt) == record.prompt_tokens);
  REQUIRE(record.prompt_tokens + record.max_new_tokens <= shape.seq_len);
  REQUIRE(std::ssize(answer) < record.max_new_tokens);
  std::vector<std::int32_t> expected = prompt;
  expected.insert(expected.end(), answer.begin(), answer.end());
  expected.push_back(tokenizer.eos_id());
  const std::size_t end = expected.size();
  expected.resize(static_cast<std::size_t>(shape.seq_len), tokenizer.pad_id());
  REQUIRE(sample.inputs == expected);

  // The answer's tokens are predicted where the token before each stands.
  std::vector<std::int32_t> scored(expected.size(), kIgnore), next(expected.size(), kIgnore);
  std::copy(answer.begin(), answer.end(), scored.begin() + std::ssize(prompt) - 1);
  std::copy(expected.begin() + 1, expected.begin() + static_cast<std::ptrdiff_t>(end),
            next.begin());
  REQUIRE(sample.labels == scored);
  REQUIRE(std::ssize(answer) <= shape.max_num_scored);
  REQUIRE(std::ssize(answer) <= shape.max_num_target);
  REQUIRE(MakeSample(task, stream, LabelMode::kTargetOnly) == sample);
  REQUIRE(MakeSample(task, stream, LabelMode::kAllTokens) == Sample{expected, next});
  const std::vector<std::int32_t> positions = ScoredPositions(sample);

  // Text and tokens.
  const std::string asked = record.prompt + record.answer_prefix;
  REQUIRE(tokenizer.Decode(prompt) == asked);
  constexpr std::int64_t kLongest = 8192;  // beyond that encoding at once takes too long
  if (shape.seq_len <= kLongest) {
    std::vector<std::int32_t> at_once(prompt.begin(), prompt.begin() + (has_bos ? 1 : 0));
    tokenizer.Encode(asked, at_once);
    REQUIRE(at_once == prompt);
  }

  // The answer follows from the text.
  REQUIRE(text.Answer(asked) == record.answer);
  std::vector<std::int32_t> solved(positions.size(), kIgnore);
  task.Solve(sample.inputs, positions, solved);
  REQUIRE(solved == answer);
  REQUIRE_FALSE(record.references.empty());
  for (const std::string& reference : record.references) {
    REQUIRE(record.answer.find(reference) != std::string::npos);
    REQUIRE(record.prompt.find(reference) != std::string::npos);
    REQUIRE(std::count(record.distractors.begin(), record.distractors.end(), reference) == 0);
  }

  const std::vector<SliceKey> keys = task.slice_keys();
  std::vector<std::int32_t> buckets(positions.size() * keys.size(), -9);
  task.AssignSlices(sample.inputs, sample.labels, buckets);
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    REQUIRE(buckets[i] >= 0);
    REQUIRE(buckets[i] < std::ssize(keys[i % keys.size()].buckets));
  }
}

TEST_CASE("text and token form of a sample agree, and its answer follows from its text") {
  // As many samples as make so many tokens, at least one.
  constexpr std::int64_t kTokens = 1 << 13;
  ForEachDataSet([](const Task& task, const PhiloxKey& key) {
    const std::int64_t count = std::max<std::int64_t>(1, kTokens / task.shape().seq_len);
    for (std::int64_t i = 0; i < count; ++i) CheckForms(task, {key, static_cast<std::uint64_t>(i)});
  });
}

TEST_CASE("both forms agree with bytes as tokens, with BOS and with short responses") {
  for (const auto& [name, entry] : TextEntries()) {
    for (const Object& options : {Object{{"tokenizer", "bytes"}, {"input_seq_len", 32768}},
                                  Object{{"bos", true}}, Object{{"gen", "answer"}}}) {
      const auto task = entry.create(options, "");
      CAPTURE(name);
      for (std::uint64_t i = 0; i < 3; ++i) {
        CheckForms(*task, {DeriveKey(task->canon(), 7, 1), i}, options.contains("bos"));
      }
    }
  }
}

TEST_CASE("BOS comes first and costs one token; the response's room follows the option") {
  for (const auto& [name, entry] : TextEntries()) {
    CAPTURE(name);
    const auto task = entry.create(Object{{"bos", true}, {"gen", "answer"}}, "");
    const SampleStream stream{DeriveKey(task->canon(), 0, 0), 0};
    const PromptRecord record = task->text()->MakePrompt(stream);
    CHECK(task->text()->MakePromptTokens(stream).front() == task->text()->tokenizer().bos_id());
    CHECK(record.max_new_tokens ==
          std::ssize(Encode(task->text()->tokenizer(), record.answer)) + 8);
  }
}

TEST_CASE("rows depend neither on the order of samples nor on the number of threads") {
  constexpr std::int64_t kCount = 24;
  for (const auto& [name, entry] : TextEntries()) {
    CAPTURE(name);
    const auto task = entry.create(Object{}, "");
    const PhiloxKey key = DeriveKey(task->canon(), 3, 0);
    const auto length = static_cast<std::size_t>(task->shape().seq_len);
    std::vector<std::int32_t> inputs(kCount * length), labels(kCount * length);
    GenerateOnCpu(*task, {.key = key, .count = kCount}, inputs, labels, 4);
    for (std::int64_t i = kCount - 1; i >= 0; --i) {
      const Sample sample = MakeSample(*task, {key, static_cast<std::uint64_t>(i)});
      const auto begin = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(i) * length);
      REQUIRE(std::equal(sample.inputs.begin(), sample.inputs.end(), inputs.begin() + begin));
      REQUIRE(std::equal(sample.labels.begin(), sample.labels.end(), labels.begin() + begin));
    }
  }
}

// Short samples, many of them: neither depends on the length.
TEST_CASE("the oracle and an order-free guesser score what the text task declares") {
  constexpr std::int64_t kCount = 10000;
  for (const auto& [name, entry] : TextEntries()) {
    Object options = {{"input_seq_len", 1024}};
    if (name == "phonebook") options["max_entries"] = 20;
    const auto task = entry.create(options, "");
    const AnswerCheck check = CheckAnswers({*task, DeriveKey(task->canon(), 5, 0), 0, kCount});
    CAPTURE(name, check.num_samples, check.num_scored, check.num_solved, check.order_free.mean,
            check.order_free.error, task->baselines().front().accuracy);
    CHECK(check.num_solved == check.num_scored);
    CHECK(check.is_chance_right);
  }
}

TEST_CASE("text tasks say how responses are scored and what guessing scores") {
  static const std::set<std::string> kMetrics = {"match_all", "int_first", "exact", "prefix5"};
  for (const auto& [name, entry] : TextEntries()) {
    CAPTURE(name);
    const auto task = entry.create(Object{}, "");
    REQUIRE_FALSE(task->text()->metrics().empty());
    for (const std::string& metric : task->text()->metrics()) CHECK(kMetrics.count(metric) == 1);
    // Who knows the form of the answer scores no less.
    const std::vector<Baseline> tokens = task->baselines();
    REQUIRE(tokens.size() == 2);
    CHECK(tokens[1].accuracy > tokens[0].accuracy - 3 * tokens[1].error);
    CHECK(task->text()->Answer("no question at all").empty());
  }
}

// A file in the test's folder.
std::string WriteFile(const std::string& name, std::string_view content) {
  const std::string path = std::string(std::getenv("TEST_TMPDIR")) + "/" + name;
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

// Values of an option near `value` that may be valid.
std::vector<Value> Neighbours(const FieldInfo& field, const Value& value,
                              const std::vector<std::string>& files) {
  if (value.is_bool()) return {!value.as_bool()};
  if (field.type == "integer") return {value.as_int() + 1, value.as_int() - 1};
  if (field.type == "number") return {value.as_double() + 0.5};
  std::vector<Value> choices;
  if (field.type == "string") {
    for (const std::string& file : files) choices.emplace_back(file);
    return choices;
  }
  const std::string prefix = "one of ";
  REQUIRE(field.type.starts_with(prefix));
  for (std::size_t begin = prefix.size(); begin < field.type.size();) {
    const std::size_t end = std::min(field.type.find('|', begin), field.type.size());
    choices.emplace_back(field.type.substr(begin, end - begin));
    begin = end + 1;
  }
  return choices;
}

// The sampling key's text, or nothing when the options are not valid together.
std::optional<std::string> CanonOf(const TaskEntry& entry, const Object& params) {
  try {
    return entry.create(params, "")->canon();
  } catch (const Error&) {
    return std::nullopt;
  }
}

TEST_CASE("every option of a text task changes the sampling key or is presentation") {
  const std::vector<std::string> files = {
      WriteFile("a.txt", "One.\nTwo.\n"), WriteFile("b.txt", "One.\nThree.\n"),
      WriteFile("a.model", ShippedTokenizerModel()), WriteFile("b.model", ShippedTokenizerModel())};
  for (const auto& [name, entry] : TextEntries()) {
    // Some options are only valid together.
    std::vector<Object> bases = {Object{},
                                 {{"input_seq_len", 65536}},
                                 {{"type_haystack", "file"}, {"haystack_file", files[0]}},
                                 {{"tokenizer", "file"}, {"tokenizer_file", files[2]}},
                                 {{"depth_mode", "fixed"}},
                                 {{"depth_mode", "grid"}},
                                 {{"type_haystack", "kjv"}, {"haystack_mode", "fixed_perm"}}};
    for (const Preset& preset : entry.presets) bases.push_back(preset.params.as_object());
    for (const FieldInfo& field : entry.params) {
      CAPTURE(name, field.name);
      bool is_tried = false;
      bool is_changed = false;
      for (const Object& base : bases) {
        if (!CanonOf(entry, base)) continue;
        const Value resolved = entry.resolve(base, "");
        const std::optional<std::string> canon = CanonOf(entry, resolved.as_object());
        for (const Value& neighbour : Neighbours(field, *resolved.Find(field.name), files)) {
          Object changed = resolved.as_object();
          changed[field.name] = neighbour;
          const std::optional<std::string> other = CanonOf(entry, changed);
          if (!other || changed == resolved.as_object()) continue;
          is_tried = true;
          is_changed |= other != canon;
        }
      }
      const bool is_presentation = std::count(entry.presentation_params.begin(),
                                              entry.presentation_params.end(), field.name) > 0;
      CHECK(is_tried);
      CHECK(is_changed != is_presentation);
    }
  }
}

// What options can change: the tokens of a few samples and the room for responses.
std::vector<std::vector<std::int32_t>> SeenOf(const Task& task) {
  constexpr std::uint64_t kNumSamples = 12;
  const PhiloxKey key = DeriveKey("", 0, 0);  // the same for all settings
  std::vector<std::vector<std::int32_t>> seen;
  for (std::uint64_t i = 0; i < kNumSamples; ++i) {
    seen.push_back(task.text()->MakePromptTokens({key, i}));
    seen.back().push_back(
        static_cast<std::int32_t>(task.text()->MakePrompt({key, i}).max_new_tokens));
    seen.back().push_back(static_cast<std::int32_t>(task.shape().seq_len));
  }
  return seen;
}

TEST_CASE("a text task refuses an option where it changes no sample") {
  for (const auto& [name, entry] : TextEntries()) {
    std::vector<Object> bases = {Object{}};
    for (const FieldInfo& field : entry.params) {
      if (!field.type.starts_with("one of ")) continue;
      for (const Value& choice : Neighbours(field, field.default_value, {})) {
        bases.push_back({{field.name, choice}});
      }
    }
    for (const Object& base : bases) {
      if (!CanonOf(entry, base)) continue;
      const auto seen = SeenOf(*entry.create(base, ""));
      for (const FieldInfo& field : entry.params) {
        if (field.name == "fit_on") continue;  // both may leave room for as many sentences
        bool is_accepted = false;
        bool is_changed = false;
        std::vector<Value> values = Neighbours(field, field.default_value, {});
        if (field.type == "integer") values.emplace_back(field.default_value.as_int() + 40);
        for (const Value& value : values) {
          Object changed = base;
          changed[field.name] = value;
          if (changed == base || value == field.default_value || !CanonOf(entry, changed)) continue;
          is_accepted = true;
          is_changed |= SeenOf(*entry.create(changed, "")) != seen;
        }
        CAPTURE(name, base.empty() ? "" : base.begin()->first, field.name);
        CHECK((!is_accepted || is_changed));
      }
    }
  }
}

TEST_CASE("the longest context is limited by the length alone") {
  for (const auto& [name, entry] : TextEntries()) {
    if (name == "phonebook") continue;  // its size is an option
    CAPTURE(name);
    std::int64_t shorter = 0;
    for (const std::int64_t length : {4096, 8192}) {
      const auto task = entry.create(Object{{"input_seq_len", length}, {"gen", "answer"}}, "");
      const PromptRecord record = task->text()->MakePrompt({DeriveKey(task->canon(), 0, 0), 0});
      // Less than a long sentence is left; of characters exactly what was asked for.
      CHECK(record.prompt_tokens + record.max_new_tokens > length - 300);
      CHECK(record.prompt_tokens > shorter);
      shorter = record.prompt_tokens;
    }
  }
}

}  // namespace
}  // namespace mixerbench::tasks
