// Checkpoints inside a cell: files that name their own content.
//
//   CELL/checkpoint-<number, 12 digits>-<SHA-256 of the file>.safetensors
//
// Numbers count up: a cell is also saved while it is tested, where its step stays the same.
// A file is written under a temporary name and renamed, so it is there completely or not at all; a
// damaged or swapped one does not match its name. The newest two are kept.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/value.h"
#include "kernels/core.h"

namespace mixerbench::harness {

struct Checkpoint {
  std::int64_t step = 0;
  Value progress;                 // an object: all that is not a tensor
  kernels::NamedTensors tensors;  // on the CPU when read
};

class CheckpointFolder {
 public:
  // The cell's folder, which must exist, and its run id: checkpoints of other runs are refused.
  CheckpointFolder(std::filesystem::path folder, std::string run_id)
      : folder_(std::move(folder)), run_id_(std::move(run_id)) {}

  // Writes a checkpoint, the newest from then on, and removes all but two. Throws Error(kOutput).
  void Save(const Checkpoint& checkpoint) const;

  // The newest checkpoint that is intact; nothing when there is none. Each one passed over leaves a
  // line in `problems`.
  std::optional<Checkpoint> Load(std::vector<std::string>& problems) const;

  // Removes every checkpoint in `folder`.
  static void RemoveAll(const std::filesystem::path& folder);

 private:
  std::filesystem::path folder_;
  std::string run_id_;
};

}  // namespace mixerbench::harness
