// Sums of the columns of a matrix: the gradient of a bias.
//
// A lane owns eight neighbouring columns (the last ones element by element when the width is no
// multiple of eight), a warp every eighth row of its block's share, a block one part of the rows.
// Warps are added in order, parts by SumRowsKernel. fp32 accumulators, deterministic.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/fused/column_sum_device.h"
#include "kernels/fused/sum_rows.h"
#include "kernels/fused/vector_io.cuh"

namespace mixerbench::kernels::fused {
namespace {

constexpr int kWarps = 8;
constexpr int kBlockColumns = 32 * kVector;
constexpr int kMaxPartials = 264;
constexpr int kRowsPerPartial = 64;

__device__ Vector LoadColumns(const ConstRows& x, long long row, int column, int width) {
  const long long index = row * x.stride + column;
  if (column + kVector <= width) return Load(x.data, x.element, index);
  Vector v = Zeros();
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    if (column + i >= width) continue;
    v.x[i] = x.element == Element::kFloat
                 ? static_cast<const float*>(x.data)[index + i]
                 : __bfloat162float(static_cast<const __nv_bfloat16*>(x.data)[index + i]);
  }
  return v;
}

__global__ void __launch_bounds__(32 * kWarps) ColumnSumKernel(const ColumnSumArgs args) {
  constexpr int kInFlight = 4;  // rows loaded before the first is used
  __shared__ float sums[kWarps][kBlockColumns];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int column = static_cast<int>(blockIdx.y) * kBlockColumns + lane * kVector;
  Vector sum = Zeros();
  if (column < args.width) {
    const long long step = static_cast<long long>(gridDim.x) * kWarps;
    for (long long row = static_cast<long long>(blockIdx.x) * kWarps + warp; row < args.num_rows;
         row += kInFlight * step) {
      Vector next[kInFlight];
#pragma unroll
      for (int j = 0; j < kInFlight; ++j) {
        next[j] = row + j * step < args.num_rows
                      ? LoadColumns(args.x, row + j * step, column, args.width)
                      : Zeros();
      }
#pragma unroll
      for (int j = 0; j < kInFlight; ++j) {
#pragma unroll
        for (int i = 0; i < kVector; ++i) sum.x[i] += next[j].x[i];
      }
    }
  }
  StoreFloat(&sums[warp][lane * kVector], sum);
  __syncthreads();
  const int thread = static_cast<int>(threadIdx.x);
  const int target = static_cast<int>(blockIdx.y) * kBlockColumns + thread;
  if (target >= args.width) return;
  float total = 0;
  for (int w = 0; w < kWarps; ++w) total += sums[w][thread];
  args.partials[static_cast<long long>(blockIdx.x) * args.width + target] = total;
}

}  // namespace

int ColumnSumPartials(long long num_rows) {
  return static_cast<int>(
      std::clamp<long long>((num_rows + kRowsPerPartial - 1) / kRowsPerPartial, 1, kMaxPartials));
}

int LaunchColumnSum(const ColumnSumArgs& args, CUstream_st* stream) {
  static_assert(32 * kWarps == kBlockColumns, "a thread finishes one column");
  const int parts = ColumnSumPartials(args.num_rows);
  const dim3 grid(static_cast<unsigned>(parts),
                  static_cast<unsigned>((args.width + kBlockColumns - 1) / kBlockColumns));
  ColumnSumKernel<<<grid, 32 * kWarps, 0, stream>>>(args);
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess) return status;
  return LaunchSumRows(args.partials, parts, args.width, args.sum, stream);
}

}  // namespace mixerbench::kernels::fused
