// Writes every scored position of a test segment while it is scored (reports/items/items.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/evaluation/evaluate.h"
#include "io/line_file.h"
#include "reports/items/items.h"
#include "tasks/task.h"

namespace mixerbench::harness {

// A file that cannot be written costs the items of its segment and not the scores: nothing is
// thrown, and Finish says why.
class ItemFile : public SampleSink {
 public:
  // `path` ends in ".jsonl", or ".jsonl.zst" for compression. `task` must outlive this.
  ItemFile(std::filesystem::path path, const tasks::Task& task, const std::string& task_name,
           std::int64_t segment);

  void Begin() override;
  void Add(std::span<const std::int32_t> inputs, std::span<const std::int32_t> labels,
           std::span<const std::int64_t> predictions) override;

  // Gives the file its name. Nothing when it could not be written; `problem` says why.
  std::optional<reports::KeptItems> Finish(std::string* problem);

 private:
  void Try(const std::function<void()>& work);

  std::filesystem::path path_;
  const tasks::Task* task_;
  std::string task_name_;
  std::int64_t segment_;
  std::vector<tasks::SliceKey> keys_;
  std::optional<io::LineWriter> lines_;
  std::int64_t num_samples_ = 0;
  std::int64_t num_items_ = 0;
  std::string problem_;
};

}  // namespace mixerbench::harness
