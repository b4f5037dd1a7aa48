// Data sets to write or to check: which samples of which task. What a command line, a preset or a
// manifest says, resolved once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/value.h"
#include "harness/dataset/options.h"
#include "io/dataset_manifest.h"
#include "tasks/task.h"

namespace mixerbench::harness {

// Samples of one setting of the task's options.
struct DatasetPart {
  // What tells it from the others, part of its files' names: "input_seq_len-64-num_kv_pairs-4". ""
  // when there is one part.
  std::string name = {};
  Value params = {};  // every option
  std::unique_ptr<tasks::Task> task = nullptr;
  std::uint64_t first = 0;
  std::int64_t count = 0;
  std::uint64_t first_index = 0;  // which `index` its first line of text has
};

struct Dataset {
  std::string task_name;
  std::int64_t task_version = 1;  // that this program makes
  std::string preset = {};        // "" when there was none
  std::uint64_t seed = 0;
  std::uint64_t split = 0;
  tasks::LabelMode labels = tasks::LabelMode::kScored;
  std::vector<DatasetPart> parts = {};

  tasks::PhiloxKey Key(const DatasetPart& part) const;
};

// Errors: ConfigError at the flag that is wrong. Each part counts its lines from `first`.
Dataset ResolveDataset(const DatasetOptions& options, const tasks::TaskRegistry& registry);

// Errors: Error(kBadInput) at the manifest's place: it asks for what this program cannot make.
Dataset DatasetOf(const io::DatasetManifest& manifest, const std::string& path,
                  const tasks::TaskRegistry& registry);

// Counts the lines of all parts together, so that a response to one of them names it by its index.
void NumberLinesThroughout(Dataset& dataset);

// "train", "validation", "test" or a number.
std::string SplitName(std::uint64_t split);

// The registry of all tasks.
tasks::TaskRegistry AllTasks();

}  // namespace mixerbench::harness
