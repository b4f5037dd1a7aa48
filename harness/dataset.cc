// SPDX-License-Identifier: Apache-2.0
#include "harness/dataset.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/suggest.h"
#include "harness/value_path.h"
#include "tasks/generate.h"

namespace mixerbench::harness {
namespace {

using tasks::LabelMode;
using tasks::Split;

constexpr std::uint64_t kFirstUserSplit = 16;

constexpr std::array<std::pair<Split, std::string_view>, 3> kSplits = {
    {{Split::kTrain, "train"}, {Split::kValidation, "validation"}, {Split::kTest, "test"}}};

constexpr std::array<std::pair<LabelMode, std::string_view>, 3> kLabelModes = {
    {{LabelMode::kScored, "scored"},
     {LabelMode::kAllTokens, "all_tokens"},
     {LabelMode::kTargetOnly, "target_only"}}};

std::uint64_t ParseSplit(const std::string& text) {
  for (const auto& [split, name] : kSplits) {
    if (name == text) return static_cast<std::uint64_t>(split);
  }
  const Value value = ParseSettingValue(text);
  if (value.is_int() && value.as_int() >= static_cast<std::int64_t>(kFirstUserSplit)) {
    return static_cast<std::uint64_t>(value.as_int());
  }
  throw ConfigError("--split",
                    "'" + text + "' is none of train, validation, test or a number >= 16");
}

LabelMode ParseLabels(const std::string& text, const std::string& where) {
  std::vector<std::string> known;
  for (const auto& [mode, name] : kLabelModes) {
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
  std::vector<std::string> known;
  for (const auto& [name, entry] : registry.entries()) {
    known.push_back(name);
    const auto& aliases = entry.aliases;
    if (name == what || std::find(aliases.begin(), aliases.end(), what) != aliases.end()) {
      return {name, &entry, nullptr};
    }
    for (const tasks::Preset& preset : entry.presets) {
      if (preset.name == what) return {name, &entry, &preset};
      if (what.find('/') != what.npos) known.push_back(preset.name);
    }
  }
  if (what.find('/') == what.npos) throw ConfigError("", UnknownName("task", what, known));
  const std::string closest = ClosestName(what, known);
  throw ConfigError("", "unknown preset '" + what + "'" +
                            (closest.empty() ? "" : " (did you mean '" + closest + "'?)") +
                            "; `mixerbench list presets` names them all");
}

// What a preset says of a split: its settings and their sizes (0: none is said).
std::vector<tasks::Segment> SegmentsOf(const tasks::Preset& preset, std::uint64_t split) {
  const bool is_train = split == static_cast<std::uint64_t>(Split::kTrain);
  const bool is_test = split == static_cast<std::uint64_t>(Split::kTest);
  std::vector<tasks::Segment> segments = is_test ? preset.test : preset.train;
  if (segments.empty()) {
    segments.push_back({preset.params, is_test ? preset.num_test : preset.num_train});
  }
  if (!is_train && !is_test) {
    for (tasks::Segment& segment : segments) segment.num_samples = 0;
  }
  return segments;
}

}  // namespace

tasks::PhiloxKey Dataset::Key(const DatasetPart& part) const {
  return tasks::DeriveKey(part.task->canon(), seed, split);
}

Dataset ResolveDataset(const DatasetOptions& options, const tasks::TaskRegistry& registry) {
  const Selection selection = Select(options.what, registry);
  Dataset dataset{.task_name = selection.task_name,
                  .split = ParseSplit(options.split),
                  .labels = ParseLabels(options.labels, "--labels")};
  std::vector<tasks::Segment> segments = {{Object{}, 1}};
  if (selection.preset != nullptr) {
    dataset.preset = selection.preset->name;
    dataset.seed = selection.preset->seed;
    segments = SegmentsOf(*selection.preset, dataset.split);
  }
  if (options.seed >= 0) dataset.seed = static_cast<std::uint64_t>(options.seed);
  for (std::size_t i = 0; i < segments.size(); ++i) {
    Object params = segments[i].params.as_object();
    for (const auto& [path, text] : options.set) params[path] = ParseSettingValue(text);
    const std::int64_t count = options.count > 0 ? options.count : segments[i].num_samples;
    if (count == 0) {
      throw ConfigError("--count", "'" + options.what + "' does not say how many samples its " +
                                       options.split + " split has");
    }
    dataset.parts.push_back({.name = segments.size() > 1 ? std::to_string(i) : "",
                             .params = selection.entry->resolve(params, "--set"),
                             .task = selection.entry->create(params, "--set"),
                             .first = options.start,
                             .count = count});
  }
  return dataset;
}

Dataset DatasetOf(const reports::DatasetManifest& manifest, const std::string& path,
                  const tasks::TaskRegistry& registry) {
  try {
    const tasks::TaskEntry& entry = registry.Find(manifest.task, "/task");
    Dataset dataset{.task_name = manifest.task,
                    .preset = manifest.preset,
                    .seed = manifest.seed,
                    .split = manifest.split,
                    .labels = manifest.labels.empty() ? LabelMode::kScored
                                                      : ParseLabels(manifest.labels, "/labels")};
    for (std::size_t i = 0; i < manifest.parts.size(); ++i) {
      const reports::DatasetPart& part = manifest.parts[i];
      const std::string where = "/parts/" + std::to_string(i) + "/params";
      dataset.parts.push_back({.name = part.name,
                               .params = part.params,
                               .task = entry.create(part.params, where),
                               .first = part.first,
                               .count = part.count});
    }
    return dataset;
  } catch (const ConfigError& error) {
    throw Error(ExitCode::kBadInput, path + ": " + error.what());
  }
}

std::string SplitName(std::uint64_t split) {
  for (const auto& [known, name] : kSplits) {
    if (static_cast<std::uint64_t>(known) == split) return std::string(name);
  }
  return std::to_string(split);
}

std::string LabelsName(LabelMode labels) {
  for (const auto& [mode, name] : kLabelModes) {
    if (mode == labels) return std::string(name);
  }
  return "?";
}

tasks::TaskRegistry AllTasks() {
  tasks::TaskRegistry registry("task");
  tasks::RegisterTasks(registry);
  return registry;
}

}  // namespace mixerbench::harness
