// Batches of samples: on CPU threads, or on a CUDA device by the same inline functions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "base/registry.h"
#include "tasks/sampling.h"
#include "tasks/task.h"

struct CUstream_st;

namespace mixerbench::tasks {

// Which sample stands at position x of a data set: x itself, or for a finite set a keyed
// permutation of 0..size-1, a new one for every epoch. Positions run on: x = size is the first
// position of the next epoch.
struct SampleOrder {
  std::uint64_t size = 0;   // 0: identity
  PhiloxKey key{};          // DeriveKey("order", seed, split)
  std::uint64_t epoch = 0;  // the epoch of position 0
  // [size] in memory of the device that generates: SampleAt the positions of the current epoch,
  // which then are all that there are. A permutation takes a long chain of draws, more than what a
  // sample takes itself, so who asks for few samples at a time lists it beforehand.
  const std::uint64_t* list = nullptr;
};

// Stream of the order's permutation, apart from the streams of all tasks.
inline constexpr std::uint32_t kOrderStream = 0x7000;

// The index of the sample at `position`.
MB_HOST_DEVICE inline std::uint64_t SampleAt(const SampleOrder& order, std::uint64_t position) {
  if (order.size == 0) return position;
  if (order.list != nullptr) return order.list[position];
  const SampleStream epoch{order.key, order.epoch + position / order.size};
  return Feistel(epoch, kOrderStream, order.size, position % order.size);
}

// Where a batch starts, apart from the request: work that is captured once and replayed for many
// batches reads it from memory.
struct BatchCursor {
  std::uint64_t first = 0;  // position of the first sample in the order
  std::uint64_t epoch = 0;  // the epoch of position 0
};

struct BatchRequest {
  PhiloxKey key{};
  std::uint64_t first = 0;  // position of the first sample in `order`
  std::int64_t count = 0;
  SampleOrder order{};
  LabelMode mode = LabelMode::kScored;
  int threads_per_sample = 0;  // on a CUDA device, 0: see launch_shape.h. Bytes never depend on it
  // Memory of the device that generates: stands for `first` and `order.epoch` when set.
  const BatchCursor* cursor = nullptr;
};

// The index of sample i of the batch, 0 <= i < request.count.
MB_HOST_DEVICE inline std::uint64_t RequestedSample(const BatchRequest& request, std::int64_t i) {
  SampleOrder order = request.order;
  std::uint64_t first = request.first;
  if (request.cursor != nullptr) {
    first = request.cursor->first;
    order.epoch = request.cursor->epoch;
  }
  return SampleAt(order, first + static_cast<std::uint64_t>(i));
}

// inputs, labels: [count, seq_len], row-major. The bytes do not depend on num_threads.
void GenerateOnCpu(const Task& task, const BatchRequest& request, std::span<std::int32_t> inputs,
                   std::span<std::int32_t> labels, int num_threads = 1);

// Fills a batch on any device, as GenerateOnCpu does. `task_name` finds a device generator.
using BatchGenerator =
    std::function<void(std::string_view task_name, const Task& task, const BatchRequest& request,
                       std::span<std::int32_t> inputs, std::span<std::int32_t> labels)>;

// Queues the same work on a CUDA stream. All pointers are device pointers; `tables` holds
// task.tables(). Returns the CUDA error code, 0 for success.
using DeviceGenerator =
    std::function<int(const Task& task, const BatchRequest& request, const std::uint32_t* tables,
                      std::int32_t* inputs, std::int32_t* labels, CUstream_st* stream)>;

using DeviceGeneratorRegistry = Registry<DeviceGenerator>;

// Registers every task folder that has a .cu file; nothing in a build without CUDA (generated).
void RegisterDeviceGenerators(DeviceGeneratorRegistry& registry);

}  // namespace mixerbench::tasks
