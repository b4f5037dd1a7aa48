// What the kernels of the selective scan share: which channels a CTA owns, and how it
// reads them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include <cuda_bf16.h>

#include "kernels/device/warp.cuh"
#include "kernels/linear_attention/selective_scan/selective_scan_kernels.h"

namespace mixerbench::kernels::selective_scan {

__device__ inline float ToFloat(float x) { return x; }
__device__ inline float ToFloat(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline void Store(float* target, float x) { *target = x; }
__device__ inline void Store(__nv_bfloat16* target, float x) { *target = __float2bfloat16_rn(x); }

// A NaN stays one: the second term has it.
__device__ inline float Softplus(float x) { return fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x))); }
__device__ inline float Sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

constexpr float kLog2E = 1.44269504f;

// The channels of a CTA: at most kChannels of one group of one sequence.
template <int kLanes>
struct ChannelTile {
  static constexpr ScanLayout kLayout{kLanes};
  static constexpr int kThreads = kLayout.num_threads();
  static constexpr int kChannels = kLayout.num_channels();
  static constexpr int kWarps = kLayout.num_warps();
  static constexpr int kChunk = ScanLayout::kChunk;
  static constexpr int kStates = kLayout.padded_states();

  std::int64_t batch, group, block, num_blocks;
  std::int64_t first_channel;  // of all channels
  int num_channels;            // that exist

  __device__ explicit ChannelTile(const ScanProblem& p) {
    const std::int64_t per_group = p.num_channels / p.num_groups;
    num_blocks = (per_group + kChannels - 1) / kChannels;
    block = blockIdx.x % num_blocks;
    group = blockIdx.x / num_blocks % p.num_groups;
    batch = blockIdx.x / num_blocks / p.num_groups;
    const std::int64_t in_group = block * kChannels;
    first_channel = group * per_group + in_group;
    num_channels = static_cast<int>(min(per_group - in_group, std::int64_t{kChannels}));
  }

  // Channel 0 of the tile at token 0.
  template <typename T>
  __device__ T* Channels(const device::Sequence& x) const {
    return static_cast<T*>(x.data) + batch * x.batch_stride + first_channel;
  }
  // State 0 of its group at token 0.
  template <typename T>
  __device__ T* States(const device::Sequence& x) const {
    return static_cast<T*>(x.data) + batch * x.batch_stride + group * x.head_stride;
  }

  // Calls f(token in chunk, channel in tile) for all of a chunk of `count` tokens, and of the
  // channels that do not exist too; neighbouring threads take neighbouring channels.
  template <typename Function>
  __device__ static void ForEachChannel(int count, const Function& f) {
    for (int i = threadIdx.x; i < count * kChannels; i += kThreads) f(i / kChannels, i % kChannels);
  }
  // The same for (token, state).
  template <typename Function>
  __device__ static void ForEachState(int count, const Function& f) {
    for (int i = threadIdx.x; i < count * kStates; i += kThreads) f(i / kStates, i % kStates);
  }
};

// Sum over the lanes of a channel; all of them get it.
template <int kLanes>
__device__ inline float SumLanes(float x) {
#pragma unroll
  for (int mask = 1; mask < kLanes; mask *= 2) x += device::ShuffleXor(x, mask);
  return x;
}

// Four states of this thread's channel: of a row of N that begins at `row`, zeros past its end.
__device__ inline void LoadStates(float (&x)[kStatesPerThread], const float* row, int lane,
                                  std::int64_t state_size, bool exists) {
#pragma unroll
  for (int j = 0; j < kStatesPerThread; ++j) {
    const int n = lane * kStatesPerThread + j;
    x[j] = exists && row != nullptr && n < state_size ? row[n] : 0.0f;
  }
}

__device__ inline void StoreStates(float* row, const float (&x)[kStatesPerThread], int lane,
                                   std::int64_t state_size) {
#pragma unroll
  for (int j = 0; j < kStatesPerThread; ++j) {
    const int n = lane * kStatesPerThread + j;
    if (n < state_size) row[n] = x[j];
  }
}

// Calls launch(std::integral_constant<int, lanes>()) for the lanes of the problem.
template <typename Launch>
int ForLanes(const ScanProblem& p, const Launch& launch) {
  switch (p.layout().lanes) {
    case 1:
      return launch(std::integral_constant<int, 1>());
    case 2:
      return launch(std::integral_constant<int, 2>());
    case 4:
      return launch(std::integral_constant<int, 4>());
    case 8:
      return launch(std::integral_constant<int, 8>());
    case 16:
      return launch(std::integral_constant<int, 16>());
    default:
      return launch(std::integral_constant<int, 32>());
  }
}

inline std::int64_t NumBlocks(const ScanProblem& p) {
  return p.batch_size * p.num_groups * p.layout().BlocksPerGroup(p.num_channels / p.num_groups);
}

}  // namespace mixerbench::kernels::selective_scan
