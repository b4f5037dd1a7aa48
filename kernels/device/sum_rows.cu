// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include "kernels/device/dependent_launch.cuh"
#include "kernels/device/sum_rows.h"

namespace mixerbench::kernels {
namespace {

constexpr int kColumns = 32;
constexpr int kStrands = 32;

// A block owns 32 columns, a thread every 32nd part of one; the strands are added in order. fp32,
// deterministic.
__global__ void __launch_bounds__(kColumns* kStrands)
    SumRowsKernel(const float* __restrict__ parts, int num_parts, int num_columns,
                  float* __restrict__ sums) {
  __shared__ float strands[kStrands][kColumns];
  const int column = static_cast<int>(blockIdx.x) * kColumns + static_cast<int>(threadIdx.x);
  WaitForPrevious();
  float sum = 0;
  if (column < num_columns) {
#pragma unroll 4
    for (int part = static_cast<int>(threadIdx.y); part < num_parts; part += kStrands) {
      sum += parts[static_cast<long long>(part) * num_columns + column];
    }
  }
  strands[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= num_columns) return;
  for (int strand = 1; strand < kStrands; ++strand) sum += strands[strand][threadIdx.x];
  sums[column] = sum;
}

}  // namespace

int LaunchSumRows(const float* parts, int num_parts, int num_columns, float* sums,
                  CUstream_st* stream) {
  const auto grid = static_cast<unsigned>((num_columns + kColumns - 1) / kColumns);
  return LaunchEarly(SumRowsKernel, grid, dim3(kColumns, kStrands), stream, parts, num_parts,
                     num_columns, sums);
}

}  // namespace mixerbench::kernels
