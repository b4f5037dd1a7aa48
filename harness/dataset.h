// Data sets to write or to check: which samples of which task. What a command line, a preset or a
// manifest says, resolved once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/value.h"
#include "harness/options.h"
#include "reports/dataset_manifest.h"
#include "tasks/task.h"

namespace mixerbench::harness {

// Samples of one setting of the task's options.
struct DatasetPart {
  std::string name = {};  // "" when there is one part; a mixture's segments are "0", "1", ...
  Value params = {};      // every option
  std::unique_ptr<tasks::Task> task = nullptr;
  std::uint64_t first = 0;
  std::int64_t count = 0;
};

struct Dataset {
  std::string task_name;
  std::string preset = {};  // "" when there was none
  std::uint64_t seed = 0;
  std::uint64_t split = 0;
  tasks::LabelMode labels = tasks::LabelMode::kScored;
  std::vector<DatasetPart> parts = {};

  tasks::PhiloxKey Key(const DatasetPart& part) const;
};

// Errors: ConfigError at the flag that is wrong.
Dataset ResolveDataset(const DatasetOptions& options, const tasks::TaskRegistry& registry);

// Errors: Error(kBadInput) at the manifest's place: it asks for what this program cannot make.
Dataset DatasetOf(const reports::DatasetManifest& manifest, const std::string& path,
                  const tasks::TaskRegistry& registry);

// "train", "validation", "test" or a number.
std::string SplitName(std::uint64_t split);

// "scored", "all_tokens" or "target_only".
std::string LabelsName(tasks::LabelMode labels);

// The registry of all tasks.
tasks::TaskRegistry AllTasks();

}  // namespace mixerbench::harness
