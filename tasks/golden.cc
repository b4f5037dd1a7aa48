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
  const auto add = [&](const std::vector<Segment>& segments, std::int64_t num_samples,
                       std::string_view name, Split split) {
    const std::string prefix = preset.name + "/" + std::string(name);
    if (segments.empty()) {
      sets.push_back({prefix, preset.params, split, preset.seed, num_samples});
    }
    for (std::size_t i = 0; i < segments.size(); ++i) {
      sets.push_back({prefix + "-" + std::to_string(i), segments[i].params, split, preset.seed,
                      segments[i].num_samples});
    }
  };
  add(preset.train, preset.num_train, "train", Split::kTrain);
  add(preset.test, preset.num_test, "test", Split::kTest);
  return sets;
}

std::string GoldenHash(std::string_view task_name, const Task& task, const PhiloxKey& key,
                       const BatchGenerator& generate) {
  const std::int64_t seq_len = task.shape().seq_len;
  const std::int64_t count = std::clamp(kMaxTokens / seq_len, std::int64_t{1}, kNumSamples);
  const auto size = static_cast<std::size_t>(count * seq_len);
  std::vector<std::int32_t> inputs(size);
  std::vector<std::int32_t> labels(size);
  generate(task_name, task, {.key = key, .count = count}, inputs, labels);
  Sha256 hash;
  hash.Update(std::as_bytes(std::span(inputs)));
  hash.Update(std::as_bytes(std::span(labels)));
  return hash.Hex();
}

std::string GoldenHashes(const TaskRegistry& registry, const BatchGenerator& generate) {
  std::string lines;
  for (const auto& [name, entry] : registry.entries()) {
    for (const Preset& preset : entry.presets) {
      for (const DataSet& set : DataSetsOf(preset)) {
        const auto task = entry.create(set.params, "/" + set.name);
        if (task->text() != nullptr) continue;  // tests/golden/text.sha256
        const PhiloxKey key =
            DeriveKey(task->canon(), set.seed, static_cast<std::uint64_t>(set.split));
        lines += GoldenHash(name, *task, key, generate) + "  " + set.name + "\n";
      }
    }
  }
  return lines;
}

}  // namespace mixerbench::tasks
