// Presets of NIAH: the standard variants and the tables of papers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tasks/task.h"

namespace mixerbench::tasks::niah {

std::vector<Preset> Presets();

}  // namespace mixerbench::tasks::niah
