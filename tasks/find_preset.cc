// SPDX-License-Identifier: Apache-2.0
#include "tasks/find_preset.h"

#include "base/suggest.h"

namespace mixerbench::tasks {

FoundPreset FindPreset(const TaskRegistry& registry, std::string_view name,
                       const std::string& where) {
  std::vector<std::string> known;
  for (const auto& [task, entry] : registry.entries()) {
    for (const Preset& preset : entry.presets) {
      if (preset.name == name) return {task, entry, preset};
      known.push_back(preset.name);
    }
  }
  const std::string closest = ClosestName(name, known);
  throw ConfigError(where, "unknown preset '" + std::string(name) + "'" +
                               (closest.empty() ? "" : " (did you mean '" + closest + "'?)") +
                               "; `mixerbench list presets` names them all");
}

std::vector<Segment> SegmentsOf(const Preset& preset, Split split) {
  std::vector<Segment> segments = split == Split::kTest ? preset.test : preset.train;
  if (segments.empty()) {
    segments.push_back({preset.params, split == Split::kTest ? preset.num_test : preset.num_train});
  }
  if (split != Split::kTrain && split != Split::kTest) {
    for (Segment& segment : segments) segment.num_samples = 0;
  }
  return segments;
}

}  // namespace mixerbench::tasks
