// Golden hashes: the first samples of every preset, as one line each that any generator can be
// compared with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/generate.h"
#include "tasks/task.h"

namespace mixerbench::tasks {

// One data set of a preset: "mqar/tiny/train", or "mqar/based/test-3" for a mixture's segment.
struct DataSet {
  std::string name;
  Value params;
  Split split = Split::kTrain;
  std::uint64_t seed = 0;
  std::int64_t num_samples = 0;  // 0: online, never repeated
};

std::vector<DataSet> DataSetsOf(const Preset& preset);

// 64 hex digits over samples 0..999 of a stream, or as many as 2^22 tokens hold: all inputs and
// then all labels (scored mode) as little-endian 32-bit integers.
std::string GoldenHash(std::string_view task_name, const Task& task, const PhiloxKey& key,
                       const BatchGenerator& generate);

// A line "<golden hash>  <data set>" for every data set of every preset of every task that is not
// text (those: tasks/text/text_golden.h), sorted by task.
std::string GoldenHashes(const TaskRegistry& registry, const BatchGenerator& generate);

}  // namespace mixerbench::tasks
