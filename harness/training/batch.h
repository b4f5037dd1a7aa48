// Batches of samples as tensors on the device where they are used.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "harness/suite/cell.h"
#include "harness/suite/registries.h"
#include "kernels/layout/rows.h"

namespace mixerbench::harness {

struct Batch {
  at::Tensor inputs;  // [B,T] int32
  at::Tensor labels;  // [B,T] int32, kIgnore where nothing is scored
  // Labels of what evaluation scores; for losses that weigh those of all tokens, else undefined.
  at::Tensor answers = {};  // [B,T] int32
};

// The scored positions of a batch, in a shape that does not depend on its labels: M entries for
// each sample, filled up where it has fewer. The head and the loss run on these alone; entries that
// only fill have the target kIgnore and take no part in means.
struct ScoredRows {
  kernels::ScoredPositions rows;  // of the flattened [B*T], row 0 where filled up
  at::Tensor targets;             // [B*M] int64
  at::Tensor weights = {};        // [B*M] fp32, of terms of the loss; undefined: 1
};

// labels [B,T] int32. Throws std::logic_error when a sample on the CPU has more than `max_scored`.
ScoredRows ListScored(const at::Tensor& labels, std::int64_t max_scored);

// Most scored positions of one sample in `mode`.
std::int64_t MaxScored(const tasks::TaskShape& shape, tasks::LabelMode mode);

// Generates samples of one task where they are used.
class TaskGenerator {
 public:
  // The task must outlive the generator.
  TaskGenerator(const std::string& task_name, const tasks::Task& task, at::Device device,
                const Registries& registries);

  // Whether samples are made where the tensors are. Otherwise the CPU makes them and they are
  // copied, which a graph cannot hold.
  bool generates_in_place() const { return !device_.is_cuda() || device_generator_ != nullptr; }

  // An empty batch on the device.
  Batch Allocate(std::int64_t count) const;
  // Fills `batch`, which holds request.count samples; nothing waits. `request.cursor` needs
  // generates_in_place().
  void Generate(const tasks::BatchRequest& request, const Batch& batch) const;
  Batch Generate(const tasks::BatchRequest& request) const;

 private:
  void GenerateOnHost(const tasks::BatchRequest& request, const at::Tensor& inputs,
                      const at::Tensor& labels) const;

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

  // `request` with the key of this segment.
  tasks::BatchRequest WithKey(tasks::BatchRequest request) const;

  // Samples 0..size()-1 of this segment.
  tasks::TaskSamples samples() const { return {*task_, key_, 0, num_examples_}; }

  const TaskGenerator& generator() const { return generator_; }

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
