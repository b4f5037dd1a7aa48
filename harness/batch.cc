// SPDX-License-Identifier: Apache-2.0
#include "harness/batch.h"

#include <cstring>

#include <ATen/ops/empty.h>
#include <ATen/ops/nonzero.h>

#include "base/error.h"
#include "harness/data.h"
#include "harness/device.h"

namespace mixerbench::harness {

ScoredPositions FindScored(const at::Tensor& labels) {
  const at::Tensor flat = labels.reshape({-1});
  const at::Tensor positions = flat.ne(tasks::kIgnore).nonzero().squeeze(1);
  return {positions, flat.index_select(0, positions).to(at::kLong)};
}

TaskGenerator::TaskGenerator(const std::string& task_name, const tasks::Task& task,
                             at::Device device, const Registries& registries)
    : task_(&task), device_(device) {
  if (!device.is_cuda()) return;
  if (!registries.device_generators.Contains(task_name)) {
    throw BackendUnavailable("task '" + task_name + "' has no CUDA generator; use --device cpu");
  }
  device_generator_ = &registries.device_generators.Find(task_name, "/task/name");
  const auto tables = task.tables();
  if (tables.empty()) return;
  at::Tensor host = at::empty({static_cast<std::int64_t>(tables.size())}, at::kInt);
  std::memcpy(host.data_ptr(), tables.data(), tables.size_bytes());
  device_tables_ = host.to(device);
}

Batch TaskGenerator::Generate(const tasks::BatchRequest& request) const {
  const std::int64_t seq_len = task_->shape().seq_len;
  const auto options = at::TensorOptions().dtype(at::kInt).device(device_);
  Batch batch{at::empty({request.count, seq_len}, options),
              at::empty({request.count, seq_len}, options)};
  auto* inputs = batch.inputs.data_ptr<std::int32_t>();
  auto* labels = batch.labels.data_ptr<std::int32_t>();
  if (!device_generator_) {
    const auto size = static_cast<std::size_t>(request.count * seq_len);
    tasks::GenerateOnCpu(*task_, request, {inputs, size}, {labels, size});
    return batch;
  }
  const auto* tables = device_tables_.defined()
                           ? static_cast<const std::uint32_t*>(device_tables_.data_ptr())
                           : nullptr;
  const int error =
      (*device_generator_)(*task_, request, tables, inputs, labels, CurrentStream(device_));
  if (error != 0) {
    throw std::runtime_error("generating samples failed with CUDA error " + std::to_string(error));
  }
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
      {.key = key_, .first = first, .count = count, .order = order, .mode = mode});
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
