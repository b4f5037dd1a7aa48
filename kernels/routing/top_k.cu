// The k largest of short rows, in order. A warp takes a row: the place of an element in the answer
// is the number of those before it, which its lane counts. Rows of a router have some ten elements,
// where this is far below what a sort of whole rows costs.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include "kernels/routing/top_k_cuda.h"

namespace mixerbench::kernels {
namespace {

constexpr int kWarpSize = 32;
constexpr int kWarps = 4;

// Whether element i comes before element j. NaN is the largest; of equal ones the first is first.
__device__ bool Precedes(float x_i, int i, float x_j, int j) {
  const bool i_is_nan = x_i != x_i;
  const bool j_is_nan = x_j != x_j;
  const bool is_equal = x_i == x_j || (i_is_nan && j_is_nan);
  if (is_equal) return i < j;
  return i_is_nan || x_i > x_j;  // false where j alone is NaN
}

__global__ void __launch_bounds__(kWarps* kWarpSize) TopKKernel(const TopKArgs args) {
  extern __shared__ float rows[];
  const int warp = threadIdx.x / kWarpSize;
  const int lane = threadIdx.x % kWarpSize;
  const long long row = static_cast<long long>(blockIdx.x) * kWarps + warp;
  if (row >= args.num_rows) return;
  float* x = rows + warp * args.width;
  for (int i = lane; i < args.width; i += kWarpSize) x[i] = args.x[row * args.width + i];
  __syncwarp();
  for (int j = lane; j < args.width; j += kWarpSize) {
    const float x_j = x[j];
    int place = 0;
    for (int i = 0; i < args.width; ++i) place += Precedes(x[i], i, x_j, j);
    if (place < args.k) args.places[row * args.k + place] = j;
  }
}

}  // namespace

int LaunchTopK(const TopKArgs& args, CUstream_st* stream) {
  if (args.num_rows == 0) return cudaSuccess;
  const auto num_blocks = static_cast<unsigned>((args.num_rows + kWarps - 1) / kWarps);
  TopKKernel<<<num_blocks, kWarps * kWarpSize, kWarps * args.width * sizeof(float), stream>>>(args);
  return cudaGetLastError();
}

}  // namespace mixerbench::kernels
