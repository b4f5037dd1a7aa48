// The CUDA generator: any task's sampler, a group of whole warps for each sample.
// A task's .cu file is one call of MakeDeviceGenerator.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "tasks/generate.h"
#include "tasks/launch_shape.h"
#include "tasks/sampler.h"

namespace mixerbench::tasks {

// The lanes of one warp, all of which must be there; see sampler.h.
class WarpLanes {
 public:
  static constexpr bool kIsParallel = true;
  static constexpr bool kIsWarp = true;

  template <typename... Steps>
  __device__ void Serial(const Steps&... steps) const {
    if (rank() == 0) (steps(), ...);
  }
  template <typename... Steps>
  __device__ void Split(const Steps&... steps) const {
    (steps(*this), ...);
  }
  template <typename Step>
  __device__ void ForEach(std::int64_t count, const Step& step) const {
#pragma unroll 1  // a lane takes few steps, and a step may hold all of Philox
    for (std::int64_t i = rank(); i < count; i += kWarpSize) step(i);
  }
  template <typename Predicate>
  __device__ std::uint32_t Count(std::uint32_t count, const Predicate& predicate) const {
    std::uint32_t num_true = 0;
#pragma unroll 1
    for (std::uint32_t first = 0; first < count; first += kWarpSize) {
      const std::uint32_t i = first + rank();
      num_true += __popc(__ballot_sync(0xFFFFFFFFu, i < count && predicate(i)));
    }
    return num_true;
  }
  __device__ void Sync() const { __syncwarp(); }

  __device__ std::uint32_t rank() const { return threadIdx.x % kWarpSize; }
  __device__ std::uint32_t CountTrue(bool x) const {
    return static_cast<std::uint32_t>(__popc(__ballot_sync(0xFFFFFFFFu, x)));
  }
  __device__ std::uint32_t Read(std::uint32_t x, std::uint32_t lane) const {
    return __shfl_sync(0xFFFFFFFFu, x, static_cast<int>(lane));
  }
};

// Neighbouring warps of a block share a sample; see sampler.h. Serial functions and teams go to
// different warps.
class GroupLanes {
 public:
  static constexpr bool kIsParallel = true;
  static constexpr bool kIsWarp = false;

  // The threads `group * size` .. `group * size + size - 1` of the block.
  __device__ GroupLanes(std::uint32_t group, std::uint32_t size)
      : group_(group), size_(size), rank_(threadIdx.x - group * size) {}

  template <typename... Steps>
  __device__ void Serial(const Steps&... steps) const {
    std::uint32_t next = 0;
    ((rank_ == kWarpSize * (next++ % num_warps()) ? steps() : void()), ...);
  }
  template <typename... Steps>
  __device__ void Split(const Steps&... steps) const {
    std::uint32_t next = 0;
    ((rank_ / kWarpSize == next++ % num_warps() ? steps(WarpLanes()) : void()), ...);
  }
  template <typename Step>
  __device__ void ForEach(std::int64_t count, const Step& step) const {
#pragma unroll 1
    for (std::int64_t i = rank_; i < count; i += size_) step(i);
  }
  __device__ void Sync() const {
    if (size_ == kWarpSize) {
      __syncwarp();
    } else {  // one of the block's sixteen barriers, for the threads of the group alone
      asm volatile("bar.sync %0, %1;" ::"r"(group_), "r"(size_) : "memory");
    }
  }

  __device__ std::uint32_t rank() const { return rank_; }
  __device__ std::uint32_t size() const { return size_; }

 private:
  __device__ std::uint32_t num_warps() const { return size_ / kWarpSize; }

  std::uint32_t group_;
  std::uint32_t size_;
  std::uint32_t rank_;
};

// Words from a 16-byte boundary to `row`.
__device__ inline std::uint32_t Misalignment(const std::int32_t* row) {
  return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(row) / 4 % 4);
}

// row = staged, with 16-byte stores where both are aligned, which they are at the same places.
__device__ inline void WriteRow(const GroupLanes& lanes, const std::int32_t* staged,
                                std::int32_t* row, std::int64_t seq_len) {
  const std::int64_t to_boundary = (4 - Misalignment(row)) % 4;
  const std::int64_t head = to_boundary < seq_len ? to_boundary : seq_len;
  const std::int64_t num_vectors = (seq_len - head) / 4;
  const auto* const from = reinterpret_cast<const int4*>(staged + head);
  auto* const to = reinterpret_cast<int4*>(row + head);
  lanes.ForEach(num_vectors, [&](std::int64_t i) { to[i] = from[i]; });
  const std::int64_t tail = head + 4 * num_vectors;
  lanes.ForEach(head, [&](std::int64_t t) { row[t] = staged[t]; });
  lanes.ForEach(seq_len - tail, [&](std::int64_t t) { row[tail + t] = staged[tail + t]; });
}

// Mapping: groups of shape.threads_per_sample threads each take a sample, grid-stride over
// samples; tokens and draws over the threads. Shared memory: shape.words_per_sample for each
// group, the working memory of the sampler and, when the sample is short enough, the sample itself,
// which is then written to global memory once, in order. inputs, labels: [count, seq_len]. No
// atomics; the result does not depend on the launch shape.
template <typename Sampler>
__global__ void __launch_bounds__(kMaxThreadsPerBlock, kMinBlocksPerMultiprocessor)
    GenerateKernel(const Sampler sampler, const BatchRequest request, const GeneratorShape shape,
                   const std::int64_t seq_len, std::int32_t* __restrict__ inputs,
                   std::int32_t* __restrict__ labels) {
  extern __shared__ __align__(16) std::uint32_t memory[];
  const std::uint32_t group = threadIdx.x / shape.threads_per_sample;
  const GroupLanes lanes(group, shape.threads_per_sample);
  std::uint32_t* const own = memory + group * shape.words_per_sample;
  auto* const staged = reinterpret_cast<std::int32_t*>(own);
  std::uint32_t* const scratch = own + 2 * shape.staged_words;
  const std::int64_t stride = std::int64_t{gridDim.x} * shape.samples_per_block;
  for (std::int64_t i = std::int64_t{blockIdx.x} * shape.samples_per_block + group;
       i < request.count; i += stride) {
    const SampleStream sample{request.key, RequestedSample(request, i)};
    std::int32_t* const row_inputs = inputs + i * seq_len;
    std::int32_t* const row_labels = labels + i * seq_len;
    if (shape.staged_words == 0) {
      sampler.Generate(lanes, sample, request.mode, row_inputs, row_labels, scratch);
      lanes.Sync();  // the next sample reuses the scratch memory
      continue;
    }
    // Rows in shared memory are as misaligned as those they are copied to.
    std::int32_t* const staged_inputs = staged + Misalignment(row_inputs);
    std::int32_t* const staged_labels = staged + shape.staged_words + Misalignment(row_labels);
    sampler.Generate(lanes, sample, request.mode, staged_inputs, staged_labels, scratch);
    lanes.Sync();
    WriteRow(lanes, staged_inputs, row_inputs, seq_len);
    WriteRow(lanes, staged_labels, row_labels, seq_len);
    lanes.Sync();
  }
}

// Lets a kernel be launched with `num_bytes` of dynamic shared memory. The limit, which all threads
// of the process share, is only ever set to the device's.
template <typename Kernel>
cudaError_t AllowSharedMemory(Kernel* kernel, int num_bytes) {
  if (num_bytes <= kDefaultSharedBytes) return cudaSuccess;
  int device = 0;
  int limit = 0;
  cudaError_t status = cudaGetDevice(&device);
  if (status == cudaSuccess) {
    status = cudaDeviceGetAttribute(&limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  }
  if (status == cudaSuccess && num_bytes > limit) return cudaErrorInvalidValue;
  if (status == cudaSuccess) {
    status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, limit);
  }
  if (status != cudaSuccess) cudaGetLastError();  // clears it: the caller gets it as a value
  return status;
}

// The DeviceGenerator of tasks that derive from SampledTask<Sampler>. Error codes beyond those of
// the launch: cudaErrorInvalidValue for another kind of task, for a number of threads that is no
// launch shape, or when one sample's working memory exceeds the shared memory of a block (the CPU
// generator has no such limit).
template <typename Sampler>
DeviceGenerator MakeDeviceGenerator() {
  return [](const Task& task, const BatchRequest& request, const std::uint32_t* tables,
            std::int32_t* inputs, std::int32_t* labels, CUstream_st* stream) -> int {
    const auto* sampled = dynamic_cast<const SampledTask<Sampler>*>(&task);
    if (sampled == nullptr) return cudaErrorInvalidValue;
    if (request.count == 0) return cudaSuccess;
    const TaskShape sizes = task.shape();
    const auto shape = ChooseGeneratorShape(sizes.seq_len, sizes.scratch_words, request.count,
                                            request.threads_per_sample);
    if (!shape) return cudaErrorInvalidValue;
    const int memory_bytes =
        static_cast<int>(4 * shape->samples_per_block * shape->words_per_sample);
    if (const cudaError_t status = AllowSharedMemory(GenerateKernel<Sampler>, memory_bytes);
        status != cudaSuccess) {
      return status;
    }
    GenerateKernel<Sampler>
        <<<shape->num_blocks, shape->samples_per_block * shape->threads_per_sample,
           static_cast<std::size_t>(memory_bytes), stream>>>(
            sampled->SamplerWithTables(tables), request, *shape, sizes.seq_len, inputs, labels);
    return cudaGetLastError();
  };
}

}  // namespace mixerbench::tasks
