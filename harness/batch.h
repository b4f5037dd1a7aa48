// Batches of samples as tensors on the device where they are used.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "harness/cell.h"
#include "harness/registries.h"

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

// Generates samples of one task where they are used.
class TaskGenerator {
 public:
  // The task must outlive the generator. Throws BackendUnavailable when the task has no device
  // generator and the device is CUDA.
  TaskGenerator(const std::string& task_name, const tasks::Task& task, at::Device device,
                const Registries& registries);

  Batch Generate(const tasks::BatchRequest& request) const;

 private:
  const tasks::Task* task_;
  at::Device device_;
  at::Tensor device_tables_;  // the task's tables on a CUDA device
  const tasks::DeviceGenerator* device_generator_ = nullptr;
};

// One segment of one split.
class SegmentSource {
 public:
  SegmentSource(const std::string& task_name, const Segment& segment, std::uint64_t seed,
                tasks::Split split, at::Device device, const Registries& registries);

  // Samples at positions first..first+count-1 of `order`.
  Batch Generate(std::uint64_t first, std::int64_t count, const tasks::SampleOrder& order,
                 tasks::LabelMode mode) const;

  const tasks::Task& task() const { return *task_; }
  std::int64_t size() const { return num_examples_; }

 private:
  std::int64_t num_examples_;
  std::unique_ptr<tasks::Task> task_;
  tasks::PhiloxKey key_;
  TaskGenerator generator_;
};

// All segments of a split.
std::vector<SegmentSource> MakeSources(const TaskPlan& task, const std::vector<Segment>& segments,
                                       std::uint64_t seed, tasks::Split split, at::Device device,
                                       const Registries& registries);

}  // namespace mixerbench::harness
