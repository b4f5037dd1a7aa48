// Sums of the columns of a matrix: the gradient of a bias.
//
// A thread owns eight neighbouring columns and every s-th row of its block's part, s being as many
// rows as a block's threads cover at once. Strands are added in order, parts by SumRowsKernel. fp32
// accumulators, deterministic.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/device/dependent_launch.cuh"
#include "kernels/device/sum_rows.h"
#include "kernels/device/vector_io.cuh"
#include "kernels/linear/column_sum_cuda.h"

namespace mixerbench::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kMaxPartials = 264;
constexpr int kRowsPerPartial = 64;

__global__ void __launch_bounds__(kThreads) ColumnSumKernel(const ColumnSumArgs args) {
  LetNextStart();
  constexpr int kInFlight = 8;  // rows loaded before the first is used
  __shared__ __align__(16) float sums[kThreads * kVector];
  const int first = static_cast<int>(blockIdx.y) * kThreads;  // vector of columns
  const int vectors = min(kThreads, args.width / kVector - first);
  const int strands = kThreads / vectors;
  const int thread = static_cast<int>(threadIdx.x);
  const int strand = thread / vectors;
  const auto* columns =
      static_cast<const __nv_bfloat16*>(args.x.data) + (first + thread % vectors) * kVector;
  Vector sum = Zeros();
  if (strand < strands) {
    const long long step = static_cast<long long>(gridDim.x) * strands;
    for (long long row = static_cast<long long>(blockIdx.x) * strands + strand; row < args.num_rows;
         row += kInFlight * step) {
      Packed<__nv_bfloat16> next[kInFlight];
#pragma unroll
      for (int j = 0; j < kInFlight; ++j) {
        // Unconditional, or the loads would wait for each other; what does not exist is left out
        // below. From the last row on: it was written last and is the most likely to be cached.
        const long long at = max(args.num_rows - 1 - row - j * step, 0LL);
        next[j] = LoadPacked(columns + at * args.x.stride, true);
      }
#pragma unroll
      for (int j = 0; j < kInFlight; ++j) {
        const Vector values = next[j].Unpack();
        const bool exists = row + j * step < args.num_rows;
#pragma unroll
        for (int i = 0; i < kVector; ++i) sum.x[i] += exists ? values.x[i] : 0;
      }
    }
  }
  StoreFloat(sums + thread * kVector, sum);
  __syncthreads();
  for (int i = thread; i < vectors * kVector; i += kThreads) {
    float total = 0;
    for (int s = 0; s < strands; ++s) total += sums[s * vectors * kVector + i];
    args.partials[static_cast<long long>(blockIdx.x) * args.width + first * kVector + i] = total;
  }
}

}  // namespace

int ColumnSumPartials(long long num_rows) {
  return static_cast<int>(
      std::clamp<long long>((num_rows + kRowsPerPartial - 1) / kRowsPerPartial, 1, kMaxPartials));
}

int LaunchColumnSum(const ColumnSumArgs& args, CUstream_st* stream) {
  const int parts = ColumnSumPartials(args.num_rows);
  const dim3 grid(static_cast<unsigned>(parts),
                  static_cast<unsigned>((args.width / kVector + kThreads - 1) / kThreads));
  ColumnSumKernel<<<grid, kThreads, 0, stream>>>(args);
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess) return status;
  return LaunchSumRows(args.partials, parts, args.width, args.sum, stream);
}

}  // namespace mixerbench::kernels
