// Presets of text tasks: one setting at several points, mostly lengths.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tasks/task.h"

namespace mixerbench::tasks {

// 4k to 128k in powers of two.
std::vector<std::int64_t> RulerLengths();

// Tested on num_test samples of each of `points`; trained online on the first. One point alone is
// no mixture.
Preset TextPreset(std::string name, const std::vector<Value>& points, std::int64_t num_test,
                  std::string reproduces);

}  // namespace mixerbench::tasks
