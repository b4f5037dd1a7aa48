// A matrix state [K,V] in the registers of a warp: which elements a lane has, sums over rows and
// columns, and the way to memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "kernels/device/warp.cuh"
#include "kernels/linear_attention/token_scan.h"

namespace mixerbench::kernels::token_scan {

// Sums over the key lanes of what each has of the columns Column(0), Column(1), ...: x[0] becomes
// the sum of Column(0). Lanes hold their columns in an order in which nothing has to be selected.
template <int kCount>
__device__ inline void SumOverKeyLanes(float (&x)[kCount]) {
#pragma unroll
  for (int mask = kCount / 2; mask > 0; mask /= 2) {
#pragma unroll
    for (int i = 0; i < mask; ++i) x[i] += device::ShuffleXor(x[i + mask], mask);
  }
#pragma unroll
  for (int mask = kCount; mask < kKeyLanes; mask *= 2) x[0] += device::ShuffleXor(x[0], mask);
}

// From x[0] of every lane the values of all its columns.
template <int kCount>
__device__ inline void SpreadOverKeyLanes(float (&x)[kCount]) {
#pragma unroll
  for (int mask = 1; mask < kCount; mask *= 2) {
#pragma unroll
    for (int i = 0; i < mask; ++i) x[i + mask] = device::ShuffleXor(x[i], mask);
  }
}

// The same sum over the value lanes for four rows, Row(4 i) and the next three.
__device__ inline float SumOverValueLanes(const float (&x)[4]) {
  const float first = x[0] + device::ShuffleXor(x[2], 2 * kKeyLanes);
  const float second = x[1] + device::ShuffleXor(x[3], 2 * kKeyLanes);
  return first + device::ShuffleXor(second, kKeyLanes);
}

// The part of the warp's columns that a lane owns. kKeys: key channels with padding.
template <int kKeys>
struct StateLanes {
  static constexpr int kRows = kKeys / kKeyLanes;
  static constexpr int kGroups = kRows / 4;
  static constexpr int kColumns = kStatesPerLane / kRows;
  static constexpr int kWidth = WarpColumns(kKeys);

  using State = float[kRows][kColumns];
  using Columns = float[kColumns];

  int lane, warp, num_warps, key_lane, value_lane;
  int lane_column;

  // The warp's columns are counted from `first_column` on.
  __device__ explicit StateLanes(int first_column)
      : lane(static_cast<int>(threadIdx.x) % 32),
        warp(static_cast<int>(threadIdx.x) / 32),
        num_warps(static_cast<int>(blockDim.x) / 32),
        key_lane(lane % kKeyLanes),
        value_lane(lane / kKeyLanes),
        lane_column(first_column + value_lane * kColumns) {}

  // Of the lane's rows and columns the r-th and c-th.
  __device__ int Row(int r) const {
    return r / 4 * (4 * kKeyLanes) + key_lane * 4 + (r % 4 ^ value_lane);
  }
  __device__ int Column(int c) const { return lane_column + (c ^ key_lane % kColumns); }
  // Several lanes have the same Column(0) where there are fewer columns than key lanes; one of them
  // owns it.
  __device__ bool OwnsColumn() const { return key_lane < kColumns; }

  // Four rows, those of group i, of a vector in shared memory.
  __device__ void Rows(float (&x)[4], const float* vector, int i) const {
#pragma unroll
    for (int j = 0; j < 4; ++j) x[j] = vector[Row(4 * i + j)];
  }
  // Of a vector over columns.
  __device__ void AllColumns(Columns& x, const float* vector) const {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) x[c] = vector[Column(c)];
  }

  // A state to or from memory in which the lanes of a warp lie together; `place` is that of lane 0.
  __device__ void LoadTogether(State& s, const float* place) const {
#pragma unroll
    for (int i = 0; i < kStatesPerLane / 4; ++i) {
      const float4 four = reinterpret_cast<const float4*>(place)[32 * i + lane];
      const float x[] = {four.x, four.y, four.z, four.w};
#pragma unroll
      for (int j = 0; j < 4; ++j) s[(4 * i + j) / kColumns][(4 * i + j) % kColumns] = x[j];
    }
  }
  __device__ void StoreTogether(float* place, const State& s) const {
    const auto at = [&](int i) { return s[i / kColumns][i % kColumns]; };
#pragma unroll
    for (int i = 0; i < kStatesPerLane / 4; ++i) {
      reinterpret_cast<float4*>(place)[32 * i + lane] =
          make_float4(at(4 * i), at(4 * i + 1), at(4 * i + 2), at(4 * i + 3));
    }
  }
};

}  // namespace mixerbench::kernels::token_scan
