// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

#include "harness/device/step_kernels.h"
#include "kernels/device/dependent_launch.cuh"

namespace mixerbench::harness {
namespace {

constexpr unsigned kWarp = 32;
constexpr unsigned kRowsPerBlock = 4;
constexpr std::int64_t kMaxBlocks = 1 << 16;
constexpr unsigned kOrderThreads = 256;
constexpr int kLabelsAhead = 8;  // of a lane

// A thread for each mask. Starts while the kernel before, the optimiser's, still runs: that reads
// the current record but no seeds, and all that ran before it has ended.
__global__ void __launch_bounds__(kMaskSeeds)
    FinishStepKernel(const StepState state, const float* losses) {
  const std::uint64_t dropout_seed = state.records[*state.next].dropout_seed;
  state.mask_seeds[threadIdx.x] = MaskSeed(dropout_seed, static_cast<int>(threadIdx.x));
  kernels::WaitForPrevious();
  __syncthreads();  // everybody has read which record comes next
  if (threadIdx.x == 0) MoveOn(state, losses);
}

// A thread for each position, grid-stride.
__global__ void __launch_bounds__(kOrderThreads)
    ListOrderKernel(const tasks::SampleOrder order, std::uint64_t* __restrict__ list) {
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * kOrderThreads + threadIdx.x; i < order.size;
       i += std::uint64_t{gridDim.x} * kOrderThreads) {
    list[i] = tasks::SampleAt(order, i);
  }
}

// Mapping: one warp a row, grid-stride over rows. A ballot over 32 labels gives each scored one its
// rank, so the order is that of the positions. Lanes load several labels before they look at one:
// the time is that of the loads. No shared memory, no atomics.
__global__ void ListScoredKernel(const std::int32_t* __restrict__ labels, std::int64_t num_rows,
                                 std::int64_t seq_len, std::int64_t max_scored,
                                 const ScoredLists lists) {
  const unsigned lane = threadIdx.x;
  const std::int64_t none = num_rows * max_scored;
  const std::int64_t stride = std::int64_t{gridDim.x} * kRowsPerBlock;
  for (std::int64_t row = std::int64_t{blockIdx.x} * kRowsPerBlock + threadIdx.y; row < num_rows;
       row += stride) {
    const std::int64_t first = row * max_scored;
    std::int64_t count = 0;
    for (std::int64_t begin = 0; begin < seq_len; begin += kWarp * kLabelsAhead) {
      std::int32_t ahead[kLabelsAhead];
#pragma unroll
      for (int i = 0; i < kLabelsAhead; ++i) {
        const std::int64_t t = begin + kWarp * i + lane;
        ahead[i] = t < seq_len ? labels[row * seq_len + t] : tasks::kIgnore;
      }
#pragma unroll
      for (int i = 0; i < kLabelsAhead; ++i) {
        const std::int64_t t = begin + kWarp * i + lane;
        const std::int64_t position = row * seq_len + t;
        const std::int32_t label = ahead[i];
        const unsigned scored = __ballot_sync(~0u, label != tasks::kIgnore);
        const std::int64_t rank = count + __popc(scored & ((1u << lane) - 1));
        const bool listed = label != tasks::kIgnore && rank < max_scored;
        if (listed) {
          lists.positions[first + rank] = position;
          lists.targets[first + rank] = label;
        }
        if (t < seq_len) lists.entries[position] = listed ? first + rank : none;
        count += __popc(scored);
      }
    }
    for (std::int64_t i = count + lane; i < max_scored; i += kWarp) {
      lists.positions[first + i] = 0;
      lists.targets[first + i] = tasks::kIgnore;
    }
  }
}

}  // namespace

int QueueFinishStep(const StepState& state, const float* losses, CUstream_st* stream) {
  return kernels::LaunchEarly(FinishStepKernel, 1, kMaskSeeds, stream, state, losses);
}

int QueueListOrder(const tasks::SampleOrder& order, std::uint64_t* list, CUstream_st* stream) {
  const std::uint64_t blocks = (order.size + kOrderThreads - 1) / kOrderThreads;
  if (blocks == 0) return cudaSuccess;
  constexpr std::uint64_t kMost = kMaxBlocks;
  ListOrderKernel<<<static_cast<unsigned>(blocks < kMost ? blocks : kMost), kOrderThreads, 0,
                    stream>>>(order, list);
  return cudaGetLastError();
}

int QueueListScored(const std::int32_t* labels, std::int64_t num_rows, std::int64_t seq_len,
                    std::int64_t max_scored, const ScoredLists& lists, CUstream_st* stream) {
  if (num_rows == 0) return cudaSuccess;
  const std::int64_t blocks = (num_rows + kRowsPerBlock - 1) / kRowsPerBlock;
  ListScoredKernel<<<static_cast<unsigned>(blocks < kMaxBlocks ? blocks : kMaxBlocks),
                     dim3(kWarp, kRowsPerBlock), 0, stream>>>(labels, num_rows, seq_len, max_scored,
                                                              lists);
  return cudaGetLastError();
}

}  // namespace mixerbench::harness
