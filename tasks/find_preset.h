// A preset by its name, and what it says of a split.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tasks/task.h"

namespace mixerbench::tasks {

// All three live as long as the registry.
struct FoundPreset {
  const std::string& task;  // its name
  const TaskEntry& entry;
  const Preset& preset;
};

// Throws ConfigError at `where`.
FoundPreset FindPreset(const TaskRegistry& registry, std::string_view name,
                       const std::string& where);

// The settings and the sizes of a split, at least one segment. A size is 0 where none is said:
// online in kTrain, and for the caller to choose in other splits.
std::vector<Segment> SegmentsOf(const Preset& preset, Split split);

}  // namespace mixerbench::tasks
