// The small work around a training step that never leaves the device: which record of the epoch
// is current, where the loss goes, which positions are scored. Written once for the CPU and the
// GPU; the launches are in step_kernels.cu. No torch here.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/philox.h"
#include "tasks/generate.h"

namespace mixerbench::harness {

// What differs between the steps of one shape. The host writes those of a whole epoch at once.
struct StepRecord {
  tasks::BatchCursor cursor;
  std::uint64_t loss_slot = 0;     // where the step leaves its losses
  std::uint64_t dropout_seed = 0;  // of the seeds of its masks
  float learning_rate = 0;
  float step = 0;  // counted from 1 over the run, for the bias correction of AdamW
};

// Pointers into the memory of one device.
struct StepState {
  const StepRecord* records = nullptr;  // of the epoch, and one more that no step uses
  StepRecord* current = nullptr;        // of the step that runs
  std::uint64_t* next = nullptr;        // index of the record after `current`
  float* losses = nullptr;              // slots of num_losses each
  std::uint64_t* mask_seeds = nullptr;  // [kMaskSeeds], of the step that runs
  int num_losses = 1;
};

// Masks that one step may draw: three a layer of 300 layers. A step that draws more fails.
constexpr int kMaskSeeds = 1024;

MB_HOST_DEVICE inline std::uint64_t MaskSeed(std::uint64_t dropout_seed, int mask) {
  const PhiloxKey key = {static_cast<std::uint32_t>(dropout_seed),
                         static_cast<std::uint32_t>(dropout_seed >> 32)};
  const PhiloxBlock bits = Philox4x32(static_cast<std::uint32_t>(mask), 0, 0, 0, key);
  return std::uint64_t{bits.words[1]} << 32 | bits.words[0];
}

// seeds [kMaskSeeds] on the CPU.
inline void FillMaskSeeds(std::uint64_t dropout_seed, std::uint64_t* seeds) {
  for (int mask = 0; mask < kMaskSeeds; ++mask) seeds[mask] = MaskSeed(dropout_seed, mask);
}

// The last work of a step: its losses go to its slot, the next record and its seeds become current.
MB_HOST_DEVICE inline void MoveOn(const StepState& state, const float* losses) {
  float* slot =
      state.losses + state.current->loss_slot * static_cast<std::uint64_t>(state.num_losses);
  for (int i = 0; i < state.num_losses; ++i) slot[i] = losses[i];
  *state.current = state.records[(*state.next)++];
}
inline void FinishStep(const StepState& state, const float* losses) {
  MoveOn(state, losses);
  FillMaskSeeds(state.current->dropout_seed, state.mask_seeds);
}

// Lists the order of an epoch: list[i] = SampleAt(order, i) for its order.size positions. Queues
// the work on a CUDA stream; returns the CUDA error code, 0 for success.
int QueueListOrder(const tasks::SampleOrder& order, std::uint64_t* list, CUstream_st* stream);

// Lists of scored positions: row r of a batch has entries r*max_scored to (r+1)*max_scored - 1, in
// order of position; a row with fewer scored positions is filled up with position 0 and target
// kIgnore.
struct ScoredLists {
  std::int64_t* positions = nullptr;  // [num_rows * max_scored], into the flattened labels
  std::int64_t* targets = nullptr;    // [num_rows * max_scored]
  std::int64_t* entries = nullptr;    // [num_rows * seq_len], inverse of `positions`:
                                      // num_rows * max_scored where nothing is scored
};

// labels [num_rows, seq_len] on the CPU. False when a row has more than max_scored.
bool ListScoredOnCpu(const std::int32_t* labels, std::int64_t num_rows, std::int64_t seq_len,
                     std::int64_t max_scored, const ScoredLists& lists);

// Queue the same work on a CUDA stream; scored positions of a row beyond max_scored are left out.
// Return the CUDA error code, 0 for success.
int QueueFinishStep(const StepState& state, const float* losses, CUstream_st* stream);
int QueueListScored(const std::int32_t* labels, std::int64_t num_rows, std::int64_t seq_len,
                    std::int64_t max_scored, const ScoredLists& lists, CUstream_st* stream);

}  // namespace mixerbench::harness
