// SPDX-License-Identifier: Apache-2.0
#include "tasks/text/text_golden.h"

#include <span>
#include <vector>

#include "base/sha256.h"
#include "tasks/golden.h"
#include "tasks/text/text_task.h"

namespace mixerbench::tasks {
namespace {

constexpr std::uint64_t kNumSamples = 2;

std::string HashOf(const Task& task, const PhiloxKey& key) {
  const auto length = static_cast<std::size_t>(task.shape().seq_len);
  std::vector<std::int32_t> inputs(length), labels(length);
  Sha256 hash;
  for (std::uint64_t i = 0; i < kNumSamples; ++i) {
    const PromptRecord record = task.text()->MakePrompt({key, i});
    task.Generate({key, i}, LabelMode::kScored, inputs, labels, {});
    hash.Update(record.prompt);
    hash.Update(record.answer_prefix);
    hash.Update(record.answer);
    hash.Update(std::as_bytes(std::span(inputs)));
    hash.Update(std::as_bytes(std::span(labels)));
  }
  return hash.Hex();
}

}  // namespace

std::string TextGoldenHashes(const TaskRegistry& registry) {
  std::string lines;
  for (const auto& [name, entry] : registry.entries()) {
    for (const Preset& preset : entry.presets) {
      for (const DataSet& set : DataSetsOf(preset)) {
        const auto task = entry.create(set.params, "/" + set.name);
        if (task->text() == nullptr) continue;
        const PhiloxKey key =
            DeriveKey(task->canon(), set.seed, static_cast<std::uint64_t>(set.split));
        lines += HashOf(*task, key) + "  " + set.name + "\n";
      }
    }
  }
  return lines;
}

}  // namespace mixerbench::tasks
