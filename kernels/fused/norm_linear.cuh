// What both passes of the norm of heads with a linear layer have in common: tiles of 64 rows, whose
// rows a warp holds as fragments (hopper.cuh) and norms there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/fused/fast_math.cuh"
#include "kernels/fused/hopper.cuh"
#include "kernels/fused/norm_linear_device.h"

namespace mixerbench::kernels::fused::norm_linear {

constexpr int kTile = kNormLinearTile;
constexpr int kPanelBytes = kTile * kTileRowBytes;
constexpr int kMostBytes = 227 * 1024;  // of shared memory
static_assert(kTile == kPanelWidth);

// Two bf16 values, that of the lower column first.
__device__ inline float2 Unpack(std::uint32_t pair) {
  return {cuda::LowBf16(pair), cuda::HighBf16(pair)};
}

// Of the two rows that a lane has part of in a fragment: t % 32 / 4 and that + 8.
struct RowPair {
  float row[2];
};

// The norm's weight to shared memory, by the threads that use it while others begin to copy.
template <int kHead, int kUsers>
__device__ inline void LoadNorm(float (&norm)[kHead], const float* weight) {
  if (threadIdx.x < kHead) norm[threadIdx.x] = weight[threadIdx.x];
  warpgroup::SyncThreads(1, kUsers);
}

// The sum over the four lanes that hold a row.
__device__ inline float SumQuad(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

// (mean(x^2) + eps)^-1/2 of a head whose fragments are x[0..kHead / 16).
template <int kHead>
__device__ inline RowPair InverseRms(const std::uint32_t (*x)[4], float eps) {
  float squares[2][2] = {};  // row, parity of the column: four sums that do not wait for each other
#pragma unroll
  for (int k = 0; k < kHead / kProductDepth; ++k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 value = Unpack(x[k][i]);
      squares[i % 2][0] += value.x * value.x;
      squares[i % 2][1] += value.y * value.y;
    }
  }
  RowPair scale;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    scale.row[h] = InverseRoot(SumQuad(squares[h][0] + squares[h][1]) * (1.0f / kHead) + eps);
  }
  return scale;
}

}  // namespace mixerbench::kernels::fused::norm_linear
