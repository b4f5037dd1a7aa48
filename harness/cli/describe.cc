// `list` and `describe` for what needs no torch.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/array_of.h"
#include "harness/cli/commands.h"
#include "harness/cli/describe_fields.h"
#include "harness/dataset/dataset.h"
#include "harness/suite/embedded.h"
#include "io/json.h"
#include "reports/summary/metrics.h"
#include "tasks/golden.h"
#include "tasks/task.h"
#include "tasks/text/text_task.h"

namespace mixerbench::harness {
namespace {

constexpr std::int64_t kNumSeen = 1000;

// One sample of tokens, with the labels by position.
std::string DrawTokens(const tasks::Task& task) {
  constexpr std::size_t kMaxDrawn = 64;
  const auto length = static_cast<std::size_t>(task.shape().seq_len);
  std::vector<std::int32_t> inputs(length), labels(length);
  tasks::GenerateOnCpu(task, {.key = tasks::DeriveKey(task.canon(), 0, 0), .count = 1}, inputs,
                       labels);
  std::string text = "inputs";
  for (std::size_t t = 0; t < std::min(length, kMaxDrawn); ++t)
    text += fmt::format(" {}", inputs[t]);
  if (length > kMaxDrawn) text += fmt::format(" ... ({} tokens)", length);
  text += "\nlabels";
  for (std::size_t t = 0; t < length; ++t) {
    if (labels[t] != tasks::kIgnore) text += fmt::format(" {}:{}", t, labels[t]);
  }
  return text;
}

// One sample of text, its middle left out.
std::string DrawText(const tasks::TextTask& task) {
  constexpr std::size_t kShown = 300;
  const auto record = task.MakePrompt({tasks::DeriveKey(task.canon(), 0, 0), 0});
  std::string prompt = record.prompt;
  if (prompt.size() > 2 * kShown) {
    prompt = prompt.substr(0, kShown) + "\n  ...\n" + prompt.substr(prompt.size() - kShown);
  }
  return io::ValidUtf8(prompt) + record.answer_prefix + " |" + record.answer;
}

// Token ids that occur as answers of the first samples.
struct AnswerIds {
  std::int32_t lowest = 0;
  std::int32_t highest = 0;
};

AnswerIds SeenAnswers(const tasks::Task& task, std::int64_t num_samples) {
  const tasks::TaskShape shape = task.shape();
  std::vector<std::int32_t> inputs(static_cast<std::size_t>(num_samples * shape.seq_len));
  std::vector<std::int32_t> labels(inputs.size());
  tasks::GenerateOnCpu(task, {.key = tasks::DeriveKey(task.canon(), 0, 0), .count = num_samples},
                       inputs, labels);
  AnswerIds ids{static_cast<std::int32_t>(shape.vocab_size), -1};
  for (const std::int32_t label : labels) {
    if (label == tasks::kIgnore) continue;
    ids = {std::min(ids.lowest, label), std::max(ids.highest, label)};
  }
  return ids;
}

// By preset, which share of the test answers its training data tell; only those below 1.
std::vector<std::pair<std::string, double>> Ceilings(const tasks::TaskEntry& entry) {
  std::vector<std::pair<std::string, double>> ceilings;
  for (const tasks::Preset& preset : entry.presets) {
    std::vector<std::unique_ptr<tasks::Task>> created;
    std::vector<tasks::TaskSamples> train, test;
    for (const tasks::DataSet& set : tasks::DataSetsOf(preset)) {
      const tasks::Task& task = *created.emplace_back(entry.create(set.params, ""));
      const auto key =
          tasks::DeriveKey(task.canon(), set.seed, static_cast<std::uint64_t>(set.split));
      (set.split == tasks::Split::kTrain ? train : test).push_back({task, key, 0, set.num_samples});
    }
    double lowest = 1;
    for (const tasks::TaskSamples& samples : test) {
      lowest = std::min(lowest, samples.task.Ceiling(train, samples));
    }
    if (lowest < 1) ceilings.emplace_back(preset.name, lowest);
  }
  return ceilings;
}

// What `describe task` says.
struct TaskFacts {
  std::string name;
  const tasks::TaskEntry& entry;
  std::unique_ptr<tasks::Task> task;  // with default options
  std::string page;                   // of its rules
  // Of tasks of tokens: no text hides its answer.
  std::optional<AnswerIds> answers = std::nullopt;
  std::vector<std::pair<std::string, double>> ceilings = {};
};

TaskFacts FactsOf(const std::string& name, const tasks::TaskEntry& entry) {
  TaskFacts facts{.name = name,
                  .entry = entry,
                  .task = entry.create(Object{}, ""),
                  .page = fmt::format("tasks/{0}/{0}.md", name)};
  if (facts.task->text() != nullptr) return facts;
  facts.answers = SeenAnswers(*facts.task, kNumSeen);
  facts.ceilings = Ceilings(entry);
  return facts;
}

Value FactsToValue(const TaskFacts& facts) {
  const tasks::TaskEntry& entry = facts.entry;
  const tasks::TaskShape shape = facts.task->shape();
  Array baselines;
  for (const auto& baseline : facts.task->baselines()) {
    baselines.emplace_back(Object{{"name", baseline.name}, {"accuracy", baseline.accuracy}});
  }
  Object ceilings;
  for (const auto& [preset, ceiling] : facts.ceilings) ceilings[preset] = ceiling;
  Object vocabulary{{"size", shape.vocab_size}};
  if (facts.answers) {
    vocabulary["answers_seen"] = Array{facts.answers->lowest, facts.answers->highest};
  }
  return Object{{"name", facts.name},
                {"summary", entry.summary},
                {"source", entry.source},
                {"version", entry.version},
                {"needs_autoencoder", entry.needs_autoencoder},
                {"params", FieldsToValue(entry.params)},
                {"baselines", baselines},
                {"ceilings", std::move(ceilings)},
                {"presets", ArrayOf(entry.presets, &tasks::Preset::name)},
                {"slices", ArrayOf(facts.task->slice_keys(), &tasks::SliceKey::name)},
                {"canon", facts.task->canon()},
                {"page", facts.page},
                {"vocabulary", std::move(vocabulary)},
                {"seq_len", shape.seq_len},
                {"max_num_scored", shape.max_num_scored},
                {"deviations", Array(entry.deviations.begin(), entry.deviations.end())}};
}

void PrintOptions(const TaskFacts& facts) {
  const tasks::TaskEntry& entry = facts.entry;
  const tasks::TaskShape shape = facts.task->shape();
  std::cout << facts.name << ": " << entry.summary << "\nsource: " << entry.source
            << "\nversion: " << entry.version
            << (entry.needs_autoencoder ? "\nmodels: auto-encoders; a causal model copies its input"
                                        : "")
            << "\nrules: " << facts.page << "\n\nparameters\n"
            << FieldsToText(entry.params)
            << fmt::format("\nwith these: {} token ids, {} tokens a sample, at most {} answers",
                           shape.vocab_size, shape.seq_len, shape.max_num_scored);
  if (facts.answers) {
    std::cout << fmt::format(", which are ids {}..{} in the first {} samples",
                             facts.answers->lowest, facts.answers->highest, kNumSeen);
  }
}

void PrintScores(const TaskFacts& facts) {
  std::cout << "\n\nwithout reading the order of the tokens\n";
  for (const auto& baseline : facts.task->baselines()) {
    std::cout << fmt::format("  {:<43} {:.6g}\n", baseline.name, baseline.accuracy);
  }
  if (!facts.ceilings.empty()) std::cout << "\nat best, from the training data of the preset\n";
  for (const auto& [preset, ceiling] : facts.ceilings) {
    std::cout << fmt::format("  {:<43} {:.6g}\n", preset, ceiling);
  }
  std::cout << "\nslices:";
  for (const auto& key : facts.task->slice_keys()) std::cout << " " << key.name;
}

void PrintSample(const TaskFacts& facts) {
  const tasks::TextTask* const text = facts.task->text();
  std::cout << "\n\nsample 0 of the training split, seed 0, default parameters\n"
            << (text != nullptr ? DrawText(*text) : DrawTokens(*facts.task)) << "\n\npresets:";
  for (const auto& preset : facts.entry.presets) std::cout << " " << preset.name;
  std::cout << "\n\ndeviations from the reference generators\n";
  for (const auto& deviation : facts.entry.deviations) std::cout << "  " << deviation << "\n";
}

// Names and descriptions of files that are compiled in.
ExitCode ListEmbedded(const std::vector<std::pair<std::string_view, std::string_view>>& files,
                      bool json) {
  Array array;
  for (const auto& [name, text] : files) {
    const Value document = io::ParseJson(text);
    const Value* description = document.Find("description");
    const std::string line = description ? description->as_string() : "";
    if (json) {
      array.emplace_back(Object{{"name", std::string(name)}, {"description", line}});
    } else {
      std::cout << NameAndText(std::string(name), line);
    }
  }
  if (json) std::cout << io::DumpJson(array, 2);
  return ExitCode::kOk;
}

}  // namespace

ExitCode ListTasks(bool json) {
  Array array;
  const auto registry = AllTasks();
  for (const auto& [name, entry] : registry.entries()) {
    if (json) {
      array.emplace_back(Object{{"name", name}, {"summary", entry.summary}});
    } else {
      std::cout << NameAndText(name, entry.summary);
    }
  }
  if (json) std::cout << io::DumpJson(array, 2);
  return ExitCode::kOk;
}

ExitCode ListPresets(bool json) {
  Array array;
  const auto registry = AllTasks();
  for (const auto& [name, entry] : registry.entries()) {
    for (const auto& preset : entry.presets) {
      if (json) {
        array.emplace_back(Object{{"name", preset.name},
                                  {"task", name},
                                  {"params", preset.params},
                                  {"num_train", preset.num_train},
                                  {"num_test", preset.num_test},
                                  {"reproduces", preset.reproduces}});
      } else {
        std::cout << fmt::format("{:<37} {:<22} {}\n", preset.name, name, preset.reproduces);
      }
    }
  }
  if (json) std::cout << io::DumpJson(array, 2);
  return ExitCode::kOk;
}

ExitCode ListSuites(bool json) { return ListEmbedded(EmbeddedSuites(), json); }

ExitCode ListCollections(bool json) { return ListEmbedded(EmbeddedCollections(), json); }

ExitCode DescribeTask(const std::string& name, bool json) {
  const auto registry = AllTasks();
  const TaskFacts facts = FactsOf(name, registry.Find(name, "describe task"));
  if (json) {
    std::cout << io::DumpJson(FactsToValue(facts), 2);
  } else {
    PrintOptions(facts);
    PrintScores(facts);
    PrintSample(facts);
  }
  return ExitCode::kOk;
}

ExitCode ListMetrics(bool json) {
  Array array;
  for (const reports::Metric& metric : reports::kMetrics) {
    if (json) {
      array.push_back(Object{{"name", metric.name},
                             {"unit", metric.unit},
                             {"meaning", metric.meaning},
                             {"path", metric.path}});
    } else {
      std::cout << fmt::format("{:<22} {:<7} {}\n", metric.name, metric.unit, metric.meaning);
    }
  }
  if (json) std::cout << io::DumpJson(array, 2);
  return ExitCode::kOk;
}

}  // namespace mixerbench::harness
