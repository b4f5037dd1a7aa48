// SPDX-License-Identifier: Apache-2.0
#include "tasks/golden.h"

#include <algorithm>

#include "base/sha256.h"

namespace mixerbench::tasks {
namespace {

constexpr std::int64_t kNumSamples = 1000;
constexpr std::int64_t kMaxTokens = std::int64_t{1} << 22;

}  // namespace

std::vector<DataSet> DataSetsOf(const Preset& preset) {
  std::vector<DataSet> sets;
  const auto add = [&](const std::vector<Segment>& segments, std::string_view name, Split split) {
    const std::string prefix = preset.name + "/" + std::string(name);
    if (segments.empty()) sets.push_back({prefix, preset.params, split, preset.seed});
    for (std::size_t i = 0; i < segments.size(); ++i) {
      sets.push_back({prefix + "-" + std::to_string(i), segments[i].params, split, preset.seed});
    }
  };
  add(preset.train, "train", Split::kTrain);
  add(preset.test, "test", Split::kTest);
  return sets;
}

std::string GoldenHashes(const TaskRegistry& registry, const BatchGenerator& generate) {
  std::string lines;
  for (const auto& [name, entry] : registry.entries()) {
    for (const Preset& preset : entry.presets) {
      for (const DataSet& set : DataSetsOf(preset)) {
        const auto task = entry.create(set.params, "/" + set.name);
        const std::int64_t seq_len = task->shape().seq_len;
        const std::int64_t count = std::clamp(kMaxTokens / seq_len, std::int64_t{1}, kNumSamples);
        const auto size = static_cast<std::size_t>(count * seq_len);
        std::vector<std::int32_t> inputs(size);
        std::vector<std::int32_t> labels(size);
        const auto split = static_cast<std::uint64_t>(set.split);
        generate(name, *task, {.key = DeriveKey(task->canon(), set.seed, split), .count = count},
                 inputs, labels);
        Sha256 hash;
        hash.Update(std::as_bytes(std::span(inputs)));
        hash.Update(std::as_bytes(std::span(labels)));
        lines += hash.Hex() + "  " + set.name + "\n";
      }
    }
  }
  return lines;
}

}  // namespace mixerbench::tasks
