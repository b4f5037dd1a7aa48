// SPDX-License-Identifier: Apache-2.0
#include "harness/training/memory_need.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sys/resource.h>
#include <sys/sysinfo.h>

#include "harness/device/device.h"
#include "harness/training/batch.h"
#include "harness/training/cell_guard.h"
#include "harness/training/model.h"
#include "harness/training/trainer.h"

namespace mixerbench::harness {
namespace {

constexpr double kFloatBytes = sizeof(float);
constexpr double kGiB = 1024.0 * 1024 * 1024;

// Tensors [B,T,D] that any block keeps: the inputs of its two halves.
constexpr double kKeptPerLayer = 2;

// What a file of the kernel says; "max" and absent files say nothing.
double ReadLimit(const char* path, double otherwise) {
  std::ifstream file(path);
  double value = 0;
  return file >> value ? value : otherwise;
}

double HostMemory() {
  struct sysinfo info {};
  sysinfo(&info);
  double total = (static_cast<double>(info.totalram) + static_cast<double>(info.totalswap)) *
                 static_cast<double>(info.mem_unit);
  total = std::min(total, ReadLimit("/sys/fs/cgroup/memory.max", total));
  total = std::min(total, ReadLimit("/sys/fs/cgroup/memory/memory.limit_in_bytes", total));
  for (const auto resource : {RLIMIT_AS, RLIMIT_DATA}) {
    rlimit limit{};
    if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) continue;
    total = std::min(total, static_cast<double>(limit.rlim_cur));
  }
  return total;
}

// Of the largest training step.
double Activations(const Cell& cell, const Model& model, at::Device device,
                   const Registries& registries) {
  const auto width = static_cast<double>(model.backbone->head().weight.size(1));
  const auto& backbone = registries.backbones.Find(cell.Backbone(), "");
  const auto num_layers = static_cast<double>(backbone.num_layers(cell.BackboneOptions()));
  const double bytes = cell.train.dtype == Dtype::kBf16 ? 2 : kFloatBytes;
  double most = 0;
  for (const Segment& segment : cell.task.train) {
    const auto task = registries.tasks.Find(cell.task.name, "").create(segment.params, "");
    const auto shape = task->shape();
    const auto batch_size = static_cast<double>(
        segment.num_examples > 0 ? std::min(segment.num_examples, cell.train.batch_size)
                                 : cell.train.batch_size);
    double needed = batch_size * static_cast<double>(shape.seq_len) * width * bytes *
                    (kKeptPerLayer * num_layers);
    if (device.is_cpu()) {  // a GPU may never store them
      const auto num_scored =
          static_cast<double>(MaxScored(shape, ToLabelMode(cell.train.loss_mode)));
      needed += batch_size * num_scored * static_cast<double>(cell.task.vocab_size) * kFloatBytes;
    }
    most = std::max(most, needed);
  }
  return most;
}

}  // namespace

MemoryNeed EstimateMemory(const Cell& cell, at::Device device, const Registries& registries) {
  const Model model = BuildModel(cell, at::kMeta, registries);
  const double bytes = static_cast<double>(model.parameters->num_elements()) * kFloatBytes;
  return {.parameters = bytes,
          .gradients = bytes,
          .optimizer = 2 * bytes,
          .activations = Activations(cell, model, device, registries)};
}

void RequireMemory(const Cell& cell, at::Device device, const Registries& registries) {
  MemoryNeed need = EstimateMemory(cell, device, registries);
  if (cell.kind == CellKind::kThroughput) {
    const bool has_step = cell.throughput.Measures("train_step");
    need.activations = 0;  // every row is measured and fails by itself
    if (!has_step) need.optimizer = 0;
    if (!has_step && !cell.throughput.Measures("fwd_bwd")) need.gradients = 0;
  }
  if (NamesTraining(cell.kind)) need.gradients = need.optimizer = need.activations = 0;
  const std::string lack = DescribeLack(need, TotalMemory(device));
  if (!lack.empty()) throw LacksMemory(lack);
}

double TotalMemory(at::Device device) {
  const Value gpu = DescribeGpu(device);
  const Value* bytes = gpu.Find("memory_bytes");
  return bytes != nullptr ? static_cast<double>(bytes->as_int()) : HostMemory();
}

std::string DescribeLack(const MemoryNeed& need, double total) {
  if (need.total() <= total) return "";
  char text[256];
  std::snprintf(text, sizeof text,
                "needs at least %.1f GiB (parameters %.1f, gradients %.1f, optimizer %.1f, "
                "activations %.1f), and there are %.1f GiB in all",
                need.total() / kGiB, need.parameters / kGiB, need.gradients / kGiB,
                need.optimizer / kGiB, need.activations / kGiB, total / kGiB);
  return text;
}

}  // namespace mixerbench::harness
