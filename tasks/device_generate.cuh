// The CUDA generator: any task's sampler, one block of threads for each sample.
// A task's .cu file is one call of MakeDeviceGenerator.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "tasks/generate.h"
#include "tasks/launch_shape.h"
#include "tasks/sampler.h"

namespace mixerbench::tasks {

// The threads of one block share a sample; see sampler.h. Serial functions go to different warps.
struct BlockLanes {
  static constexpr bool kIsParallel = true;

  template <typename... Steps>
  __device__ void Serial(const Steps&... steps) const {
    const unsigned num_warps = blockDim.x / 32;
    unsigned next = 0;
    (RunOn(32 * (next++ % num_warps), steps), ...);
  }
  template <typename Step>
  __device__ void ForEach(std::int64_t count, const Step& step) const {
    for (std::int64_t i = threadIdx.x; i < count; i += blockDim.x) step(i);
  }
  __device__ void Sync() const { __syncthreads(); }

 private:
  template <typename Step>
  __device__ static void RunOn(unsigned thread, const Step& step) {
    if (threadIdx.x == thread) step();
  }
};

// Mapping: one block a sample, grid-stride over samples; tokens and draws over the threads.
// Shared memory: scratch_words of the sampler. inputs, labels: [count, seq_len]. No atomics; the
// result does not depend on the launch shape.
template <typename Sampler>
__global__ void GenerateKernel(const Sampler sampler, const BatchRequest request,
                               const std::int64_t seq_len, std::int32_t* __restrict__ inputs,
                               std::int32_t* __restrict__ labels) {
  extern __shared__ std::uint32_t scratch[];
  const BlockLanes lanes;
  for (std::int64_t i = blockIdx.x; i < request.count; i += gridDim.x) {
    const std::uint64_t index = RequestedSample(request, i);
    sampler.Generate(lanes, SampleStream{request.key, index}, request.mode, inputs + i * seq_len,
                     labels + i * seq_len, scratch);
    lanes.Sync();  // the next sample reuses the scratch memory
  }
}

// The DeviceGenerator of tasks that derive from SampledTask<Sampler>. Error codes beyond those of
// the launch: cudaErrorInvalidValue for another kind of task or when one sample's working memory
// exceeds the shared memory of a block (the CPU generator has no such limit).
template <typename Sampler>
DeviceGenerator MakeDeviceGenerator() {
  return [](const Task& task, const BatchRequest& request, const std::uint32_t* tables,
            std::int32_t* inputs, std::int32_t* labels, CUstream_st* stream) -> int {
    const auto* sampled = dynamic_cast<const SampledTask<Sampler>*>(&task);
    if (sampled == nullptr) return cudaErrorInvalidValue;
    if (request.count == 0) return cudaSuccess;
    const TaskShape shape = task.shape();
    const std::int64_t scratch_bytes = 4 * shape.scratch_words;
    if (scratch_bytes > (1 << 30)) return cudaErrorInvalidValue;
    const cudaError_t status =
        cudaFuncSetAttribute(GenerateKernel<Sampler>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(scratch_bytes));
    if (status != cudaSuccess) {
      cudaGetLastError();  // clears it: the caller gets it as a value
      return status;
    }
    GenerateKernel<Sampler><<<GeneratorGridSize(request.count), GeneratorBlockSize(shape.seq_len),
                              static_cast<std::size_t>(scratch_bytes), stream>>>(
        sampled->SamplerWithTables(tables), request, shape.seq_len, inputs, labels);
    return cudaGetLastError();
  };
}

}  // namespace mixerbench::tasks
