// SPDX-License-Identifier: Apache-2.0
#include "harness/evaluation/item_file.h"

#include <utility>

#include "base/error.h"
#include "io/atomic_file.h"

namespace mixerbench::harness {

ItemFile::ItemFile(std::filesystem::path path, const tasks::Task& task,
                   const std::string& task_name, std::int64_t segment)
    : path_(std::move(path)),
      task_(&task),
      task_name_(task_name),
      segment_(segment),
      keys_(task.slice_keys()) {}

void ItemFile::Try(const std::function<void()>& work) {
  if (!problem_.empty()) return;
  try {
    work();
  } catch (const Error& error) {
    problem_ = error.what();
    lines_.reset();
  }
}

void ItemFile::Begin() {
  num_samples_ = num_items_ = 0;
  Try([this] {
    lines_.reset();
    lines_.emplace(path_);
  });
}

void ItemFile::Add(std::span<const std::int32_t> inputs, std::span<const std::int32_t> labels,
                   std::span<const std::int64_t> predictions) {
  std::vector<std::int32_t> buckets(predictions.size() * keys_.size());
  task_->AssignSlices(inputs, labels, buckets);
  reports::Item item;
  item.task = task_name_;
  item.segment = segment_;
  item.length = static_cast<std::int64_t>(inputs.size());
  item.sample = num_samples_++;
  std::size_t scored = 0;
  for (std::size_t position = 0; position < labels.size(); ++position) {
    if (labels[position] == tasks::kIgnore) continue;
    item.position = static_cast<std::int64_t>(position);
    item.expected = labels[position];
    item.predicted = predictions[scored];
    item.slices.clear();
    for (std::size_t key = 0; key < keys_.size(); ++key) {
      const std::int32_t bucket = buckets[scored * keys_.size() + key];
      if (bucket < 0) continue;
      item.slices.emplace_back(keys_[key].name,
                               keys_[key].buckets[static_cast<std::size_t>(bucket)]);
    }
    Try([&] { lines_->Add(reports::ItemLine(item)); });
    ++num_items_;
    ++scored;
  }
}

std::optional<reports::KeptItems> ItemFile::Finish(std::string* problem) {
  reports::KeptItems kept{.segment = segment_,
                          .file = path_.filename().string(),
                          .sha256 = {},
                          .num_items = num_items_};
  Try([&] {
    lines_->Commit();
    lines_.reset();
    kept.sha256 = "sha256:" + io::HashFile(path_);
    kept.num_bytes = static_cast<std::int64_t>(std::filesystem::file_size(path_));
  });
  *problem = problem_;
  return problem_.empty() ? std::optional(kept) : std::nullopt;
}

}  // namespace mixerbench::harness
