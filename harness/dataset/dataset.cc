// SPDX-License-Identifier: Apache-2.0
#include "harness/dataset/dataset.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>

#include "base/suggest.h"
#include "io/json.h"
#include "io/value_path.h"
#include "tasks/find_preset.h"
#include "tasks/generate.h"

namespace mixerbench::harness {
namespace {

using tasks::LabelMode;
using tasks::Split;

constexpr std::uint64_t kFirstUserSplit = 16;
// Of one part: as inputs and labels of 8 bytes they are 2^62 bytes, which a file can be asked for.
constexpr std::int64_t kMaxTokens = std::int64_t{1} << 58;

constexpr std::array<std::pair<Split, std::string_view>, 3> kSplits = {
    {{Split::kTrain, "train"}, {Split::kValidation, "validation"}, {Split::kTest, "test"}}};

std::uint64_t ParseSplit(const std::string& text) {
  for (const auto& [split, name] : kSplits) {
    if (name == text) return static_cast<std::uint64_t>(split);
  }
  const Value value = io::ParseSettingValue(text);
  if (value.is_int() && value.as_int() >= static_cast<std::int64_t>(kFirstUserSplit)) {
    return static_cast<std::uint64_t>(value.as_int());
  }
  throw ConfigError("--split",
                    "'" + text + "' is none of train, validation, test or a number >= 16");
}

LabelMode ParseLabels(const std::string& text, const std::string& where) {
  std::vector<std::string> known;
  for (const auto& [mode, name] : EnumNames<LabelMode>::kNames) {
    if (name == text) return mode;
    known.emplace_back(name);
  }
  throw ConfigError(where, UnknownName("label mode", text, known));
}

// The task's entry and, when `what` names one, its preset.
struct Selection {
  std::string task_name;
  const tasks::TaskEntry* entry = nullptr;
  const tasks::Preset* preset = nullptr;
};

Selection Select(const std::string& what, const tasks::TaskRegistry& registry) {
  if (what.find('/') != what.npos) {
    const tasks::FoundPreset found = tasks::FindPreset(registry, what, "");
    return {found.task, &found.entry, &found.preset};
  }
  std::vector<std::string> known;
  for (const auto& [name, entry] : registry.entries()) {
    known.push_back(name);
    const auto& aliases = entry.aliases;
    if (name == what || std::find(aliases.begin(), aliases.end(), what) != aliases.end()) {
      return {name, &entry, nullptr};
    }
    for (const tasks::Preset& preset : entry.presets) {
      if (preset.name == what) return {name, &entry, &preset};
    }
  }
  throw ConfigError("", UnknownName("task", what, known));
}

// The parts of a mixture by the options that differ; by their numbers where that makes no file
// names.
std::vector<std::string> PartNames(const std::vector<Value>& params) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  constexpr std::size_t kMaxBytes = 80;
  if (params.size() == 1) return {""};
  std::vector<std::string> names(params.size());
  for (const auto& [option, first] : params.front().as_object()) {
    const bool is_shared = std::all_of(params.begin(), params.end(), [&](const Value& other) {
      return *other.Find(option) == first;
    });
    if (is_shared) continue;
    for (std::size_t i = 0; i < params.size(); ++i) {
      const Value& value = *params[i].Find(option);
      names[i] += (names[i].empty() ? "" : "-") + option + "-" + io::ValueText(value);
    }
  }
  const bool are_names = std::all_of(names.begin(), names.end(), [&](const std::string& name) {
    return name.size() <= kMaxBytes && name.find_first_not_of(kPlain) == name.npos;
  });
  if (are_names && std::set<std::string>(names.begin(), names.end()).size() == names.size()) {
    return names;
  }
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = std::to_string(i);
  return names;
}

// Which positions are labelled when nothing is said.
LabelMode DefaultLabels(const Selection& selection, std::uint64_t split) {
  const bool is_train = split == static_cast<std::uint64_t>(Split::kTrain);
  return selection.preset != nullptr && is_train ? selection.preset->train_labels
                                                 : LabelMode::kScored;
}

}  // namespace

tasks::PhiloxKey Dataset::Key(const DatasetPart& part) const {
  return tasks::DeriveKey(part.task->canon(), seed, split);
}

Dataset ResolveDataset(const DatasetOptions& options, const tasks::TaskRegistry& registry) {
  const Selection selection = Select(options.what, registry);
  Dataset dataset{.task_name = selection.task_name,
                  .task_version = selection.entry->version,
                  .split = ParseSplit(options.split)};
  dataset.labels = options.labels.empty() ? DefaultLabels(selection, dataset.split)
                                          : ParseLabels(options.labels, "--labels");
  std::vector<tasks::Segment> segments = {{Object{}, 1}};
  if (selection.preset != nullptr) {
    dataset.preset = selection.preset->name;
    dataset.seed = selection.preset->seed;
    segments = tasks::SegmentsOf(*selection.preset, static_cast<Split>(dataset.split));
  }
  dataset.seed = options.seed.value_or(dataset.seed);
  std::vector<Value> all_params;
  for (const tasks::Segment& segment : segments) {
    Object params = segment.params.as_object();
    for (const auto& [path, text] : options.set) params[path] = io::ParseSettingValue(text);
    all_params.push_back(selection.entry->resolve(params, "--set"));
  }
  const std::vector<std::string> names = PartNames(all_params);
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const std::int64_t count = options.count > 0 ? options.count : segments[i].num_samples;
    if (count == 0) {
      throw ConfigError("--count", "'" + options.what + "' does not say how many samples its " +
                                       options.split + " split has");
    }
    if (static_cast<std::uint64_t>(count) - 1 > ~options.start) {
      throw ConfigError("--start", "samples are numbered up to 2^64-1, and " +
                                       std::to_string(count) + " from " +
                                       std::to_string(options.start) + " on are more");
    }
    auto task = selection.entry->create(all_params[i], "--set");
    if (count > kMaxTokens / task->shape().seq_len) {
      throw ConfigError("--count", std::to_string(count) + " samples of " +
                                       std::to_string(task->shape().seq_len) +
                                       " tokens are more than 2^58 tokens, which no file holds");
    }
    dataset.parts.push_back({.name = names[i],
                             .params = all_params[i],
                             .task = std::move(task),
                             .first = options.start,
                             .count = count,
                             .first_index = options.start});
  }
  return dataset;
}

Dataset DatasetOf(const io::DatasetManifest& manifest, const std::string& path,
                  const tasks::TaskRegistry& registry) {
  try {
    const tasks::TaskEntry& entry = registry.Find(manifest.task, "/task");
    Dataset dataset{.task_name = manifest.task,
                    .task_version = entry.version,
                    .preset = manifest.preset,
                    .seed = manifest.seed,
                    .split = manifest.split,
                    .labels = manifest.labels.empty() ? LabelMode::kScored
                                                      : ParseLabels(manifest.labels, "/labels")};
    for (std::size_t i = 0; i < manifest.parts.size(); ++i) {
      const io::DatasetPart& part = manifest.parts[i];
      const std::string where = "/parts/" + std::to_string(i) + "/params";
      dataset.parts.push_back({.name = part.name,
                               .params = part.params,
                               .task = entry.create(part.params, where),
                               .first = part.first,
                               .count = part.count,
                               .first_index = part.first_index});
    }
    return dataset;
  } catch (const ConfigError& error) {
    throw Error(ExitCode::kBadInput, path + ": " + error.what());
  }
}

void NumberLinesThroughout(Dataset& dataset) {
  std::uint64_t next = dataset.parts.front().first;
  for (DatasetPart& part : dataset.parts) {
    part.first_index = next;
    next += static_cast<std::uint64_t>(part.count);
  }
}

std::string SplitName(std::uint64_t split) {
  for (const auto& [known, name] : kSplits) {
    if (static_cast<std::uint64_t>(known) == split) return std::string(name);
  }
  return std::to_string(split);
}

tasks::TaskRegistry AllTasks() {
  tasks::TaskRegistry registry("task");
  tasks::RegisterTasks(registry);
  return registry;
}

}  // namespace mixerbench::harness
