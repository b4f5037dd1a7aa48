// SPDX-License-Identifier: Apache-2.0
#include "harness/training/batch.h"

#include <cstring>

#include <ATen/ops/empty.h>

#include "base/check.h"
#include "harness/device/device.h"
#include "harness/device/step_kernels.h"
#include "harness/suite/data.h"

namespace mixerbench::harness {

std::int64_t MaxScored(const tasks::TaskShape& shape, tasks::LabelMode mode) {
  switch (mode) {
    case tasks::LabelMode::kScored:
      return shape.max_num_scored;
    case tasks::LabelMode::kAllTokens:
      return shape.seq_len;
    case tasks::LabelMode::kTargetOnly:
      return shape.max_num_target;
  }
  Require(false, "unknown label mode");
  return 0;
}

ScoredRows ListScored(const at::Tensor& labels, std::int64_t max_scored) {
  const std::int64_t num_rows = labels.size(0);
  const std::int64_t seq_len = labels.size(1);
  const auto options = labels.options().dtype(at::kLong);
  const ScoredRows scored{{.positions = at::empty({num_rows * max_scored}, options),
                           .inverse = at::empty({num_rows * seq_len}, options),
                           .per_sequence = max_scored},
                          at::empty({num_rows * max_scored}, options)};
  const ScoredLists lists{scored.rows.positions.data_ptr<std::int64_t>(),
                          scored.targets.data_ptr<std::int64_t>(),
                          scored.rows.inverse.data_ptr<std::int64_t>()};
  const auto* data = labels.const_data_ptr<std::int32_t>();
  if (labels.is_cuda()) {
    CheckCuda(
        QueueListScored(data, num_rows, seq_len, max_scored, lists, CurrentStream(labels.device())),
        "listing scored positions");
  } else {
    Require(ListScoredOnCpu(data, num_rows, seq_len, max_scored, lists),
            "a sample has more scored positions than its task declares");
  }
  return scored;
}

TaskGenerator::TaskGenerator(const std::string& task_name, const tasks::Task& task,
                             at::Device device, const Registries& registries)
    : task_(&task), device_(device) {
  if (!device.is_cuda() || !registries.device_generators.Contains(task_name)) return;
  device_generator_ = &registries.device_generators.Find(task_name, "/task/name");
  const auto tables = task.tables();
  if (tables.empty()) return;
  at::Tensor host = at::empty({static_cast<std::int64_t>(tables.size())}, at::kInt);
  std::memcpy(host.data_ptr(), tables.data(), tables.size_bytes());
  device_tables_ = host.to(device);
}

Batch TaskGenerator::Allocate(std::int64_t count) const {
  const auto options = at::TensorOptions().dtype(at::kInt).device(device_);
  const std::int64_t seq_len = task_->shape().seq_len;
  return {at::empty({count, seq_len}, options), at::empty({count, seq_len}, options)};
}

void TaskGenerator::GenerateOnHost(const tasks::BatchRequest& request, const at::Tensor& inputs,
                                   const at::Tensor& labels) const {
  const auto size = static_cast<std::size_t>(inputs.numel());
  tasks::GenerateOnCpu(*task_, request, {inputs.data_ptr<std::int32_t>(), size},
                       {labels.data_ptr<std::int32_t>(), size});
}

void TaskGenerator::Generate(const tasks::BatchRequest& request, const Batch& batch) const {
  if (!device_.is_cuda()) {
    GenerateOnHost(request, batch.inputs, batch.labels);
    return;
  }
  if (!device_generator_) {
    Require(request.cursor == nullptr, "the CPU cannot read a cursor on the device");
    // Pinned memory goes back to its allocator when the copy is done, so the CPU makes the next
    // batch while the device works on this one.
    const auto pinned = at::TensorOptions().dtype(at::kInt).pinned_memory(true);
    const at::Tensor inputs = at::empty(batch.inputs.sizes(), pinned);
    const at::Tensor labels = at::empty(batch.labels.sizes(), pinned);
    GenerateOnHost(request, inputs, labels);
    batch.inputs.copy_(inputs, /*non_blocking=*/true);
    batch.labels.copy_(labels, /*non_blocking=*/true);
    return;
  }
  const auto* tables = device_tables_.defined()
                           ? static_cast<const std::uint32_t*>(device_tables_.const_data_ptr())
                           : nullptr;
  CheckCuda((*device_generator_)(*task_, request, tables, batch.inputs.data_ptr<std::int32_t>(),
                                 batch.labels.data_ptr<std::int32_t>(), CurrentStream(device_)),
            "generating samples");
}

Batch TaskGenerator::Generate(const tasks::BatchRequest& request) const {
  const Batch batch = Allocate(request.count);
  Generate(request, batch);
  return batch;
}

SegmentSource::SegmentSource(const std::string& task_name, const Segment& segment,
                             std::uint64_t seed, tasks::Split split, at::Device device,
                             const Registries& registries)
    : num_examples_(segment.num_examples),
      task_(registries.tasks.Find(task_name, "/task/name").create(segment.params, "/task")),
      key_(SampleKey(*task_, seed, split)),
      generator_(task_name, *task_, device, registries) {}

Batch SegmentSource::Generate(std::uint64_t first, std::int64_t count,
                              const tasks::SampleOrder& order, tasks::LabelMode mode) const {
  return generator_.Generate(
      WithKey({.first = first, .count = count, .order = order, .mode = mode}));
}

tasks::BatchRequest SegmentSource::WithKey(tasks::BatchRequest request) const {
  request.key = key_;
  return request;
}

std::vector<SegmentSource> MakeSources(const TaskPlan& task, const std::vector<Segment>& segments,
                                       std::uint64_t seed, tasks::Split split, at::Device device,
                                       const Registries& registries) {
  std::vector<SegmentSource> sources;
  for (const Segment& segment : segments) {
    sources.emplace_back(task.name, segment, seed, split, device, registries);
  }
  return sources;
}

}  // namespace mixerbench::harness
