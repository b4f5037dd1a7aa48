// Batches of samples as tensors on the device where they are used.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "harness/registries.h"
#include "harness/suite.h"

namespace mixerbench::harness {

struct Batch {
  at::Tensor inputs;  // [B,T] int32
  at::Tensor labels;  // [B,T] int32, kIgnore where nothing is scored
};

// Indices of labelled positions in the flattened [B*T] batch, int64, and their labels. The head
// and the loss run on these alone.
struct ScoredPositions {
  at::Tensor positions;  // [N]
  at::Tensor targets;    // [N] int64
};
ScoredPositions FindScored(const at::Tensor& labels);

// One segment of one split, ready to generate batches on a device.
class SegmentSource {
 public:
  // Throws BackendUnavailable when the task has no device generator and the device is CUDA.
  SegmentSource(const std::string& task_name, const Segment& segment, std::uint64_t seed,
                tasks::Split split, at::Device device, const Registries& registries);

  // Samples at positions first..first+count-1 of `order`.
  Batch Generate(std::uint64_t first, std::int64_t count, const tasks::SampleOrder& order,
                 tasks::LabelMode mode) const;

  const tasks::Task& task() const { return *task_; }
  const Segment& segment() const { return segment_; }
  std::int64_t size() const { return segment_.num_examples; }

 private:
  Segment segment_;
  std::unique_ptr<tasks::Task> task_;
  tasks::PhiloxKey key_;
  at::Device device_;
  at::Tensor device_tables_;  // task tables on a CUDA device
  const tasks::DeviceGenerator* device_generator_ = nullptr;
};

// All segments of a split.
std::vector<SegmentSource> MakeSources(const TaskPlan& task, const std::vector<Segment>& segments,
                                       std::uint64_t seed, tasks::Split split, at::Device device,
                                       const Registries& registries);

}  // namespace mixerbench::harness
