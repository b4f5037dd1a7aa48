// Which samples are drawn when: keys, epochs and the order of batches. No tensors here.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/suite/train_config.h"
#include "tasks/generate.h"
#include "tasks/task.h"

namespace mixerbench::harness {

// The key of a task's samples in one split.
tasks::PhiloxKey SampleKey(const tasks::Task& task, std::uint64_t seed, tasks::Split split);

// 64 hex digits over inputs and scored labels (little-endian int32) of samples
// first..first+count-1.
std::string HashSamples(const tasks::Task& task, std::uint64_t seed, tasks::Split split,
                        std::int64_t first, std::int64_t count);

// Whether an answer of the first samples of `key` stands earlier in its input.
bool HasAnswersInInput(const tasks::Task& task, const tasks::PhiloxKey& key);

// A run of consecutive positions of one segment's order: batches never mix segments.
struct BatchSlot {
  std::size_t segment = 0;
  std::uint64_t first = 0;
  std::int64_t count = 0;
};

// The batches of one epoch of `train` in the order they are served. `sizes` holds the examples of
// each segment; the last batch of a segment may be short. Pure in (seed, epoch).
std::vector<BatchSlot> EpochBatches(const std::vector<std::int64_t>& sizes,
                                    const TrainConfig& train, std::uint64_t seed,
                                    std::int64_t epoch);

// Where the samples of a segment stand in one epoch: shuffled for kShuffleExamples and kStages,
// else in order.
tasks::SampleOrder EpochOrder(std::int64_t size, BatchOrder order, std::uint64_t seed,
                              std::int64_t epoch);

// A seed for one purpose, so that one more random number here changes nothing there.
std::uint64_t DeriveSeed(std::uint64_t seed, const char* purpose, std::uint64_t counter = 0);

}  // namespace mixerbench::harness
