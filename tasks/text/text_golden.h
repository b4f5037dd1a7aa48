// Golden hashes of text tasks, as golden.h has them for others.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tasks/task.h"

namespace mixerbench::tasks {

// A line "<sha256>  <data set>" for every data set of every preset of every text task, sorted by
// task: the hash of samples 0 and 1, for each its prompt, answer prefix and answer as text and then
// inputs and labels (scored mode) as little-endian 32-bit integers.
std::string TextGoldenHashes(const TaskRegistry& registry);

}  // namespace mixerbench::tasks
