// Golden hashes: the first samples of every preset, as one line each that any generator can be
// compared with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
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
};

std::vector<DataSet> DataSetsOf(const Preset& preset);

// Fills a batch, as GenerateOnCpu does. `task_name` finds the device generator.
using BatchGenerator =
    std::function<void(std::string_view task_name, const Task& task, const BatchRequest& request,
                       std::span<std::int32_t> inputs, std::span<std::int32_t> labels)>;

// A line "<sha256>  <data set>" for every data set of every preset, sorted by task: the hash of
// samples 0..999, or of as many as 2^22 tokens hold, all inputs and then all labels (scored mode)
// as little-endian 32-bit integers.
std::string GoldenHashes(const TaskRegistry& registry, const BatchGenerator& generate);

}  // namespace mixerbench::tasks
