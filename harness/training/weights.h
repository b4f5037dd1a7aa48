// Final weights: what a training leaves to every evaluation of it.
//
//   OUT/weights/<first digits of the training id>-<SHA-256 of the file>.safetensors
//
// A file names its own content, as checkpoints do: one that is damaged or swapped is passed over,
// and a training cell trains again. Its tensors are the parameters under their own names, and
// `training.json`: how training went, as the bytes of its text, so that a cell that only evaluates
// reports it too.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/tensor_file.h"
#include "kernels/core.h"
#include "reports/result/result.h"

namespace mixerbench::harness {

struct FinalWeights {
  reports::CellResult training;  // at its last step; its identity is that of the cell that trained
  kernels::NamedTensors parameters;  // on the CPU when read
  reports::KeptWeights file = {};
};

class WeightsFolder {
 public:
  // The folder need not exist. `training_id` has 64 hex digits (identity.h).
  WeightsFolder(std::filesystem::path folder, std::string training_id)
      : folder_(std::move(folder)), training_id_(std::move(training_id)) {}

  // Replaces what is there for this training. Nothing is written, and nothing returned, when the
  // file needs more than `max_bytes`. Throws Error(kOutput).
  std::optional<reports::KeptWeights> Save(const FinalWeights& weights,
                                           std::int64_t max_bytes) const;

  // Intact weights of this training, if there are any. Each file passed over leaves a line in
  // `problems`.
  std::optional<FinalWeights> Load(std::vector<std::string>& problems) const;

  // Whether there is a file, whole or not.
  bool HasFile() const { return !List().empty(); }

  // Removes files of more bytes.
  void RemoveAbove(std::int64_t max_bytes) const;
  void RemoveAll() const { RemoveAbove(-1); }

  // Copies what is there to another folder. Throws Error(kOutput).
  void CopyTo(const std::filesystem::path& folder) const;

 private:
  std::string FileName(const std::string& bytes) const;
  std::vector<std::filesystem::path> List() const;

  std::filesystem::path folder_;
  std::string training_id_;
};

// The parameters in the file in `folder` whose content has these 64 digits; nothing when it is gone
// or damaged.
std::optional<io::TensorFile> ReadKeptWeights(const std::filesystem::path& folder,
                                              std::string_view sha256);

// Enters in `result` how the training went that another cell has done.
void TakeTraining(const reports::CellResult& training, reports::CellResult& result);

}  // namespace mixerbench::harness
