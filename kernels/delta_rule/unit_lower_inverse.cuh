// The inverse of a unit lower triangular matrix in shared memory, in fp32.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/tiles.cuh"

namespace mixerbench::kernels::delta_rule {

// Diagonal blocks: substitution, one lane a column. Row r of the inverse is
// X_r = e_r - sum_{j<r} L_rj X_j.
__device__ inline void InvertDiagonalBlock(float* block, int row_size) {
  const int column = cuda::LaneId();
  if (column < 16) {
    float x[16];
#pragma unroll
    for (int r = 0; r < 16; ++r) {
      x[r] = r == column ? 1.f : 0.f;
#pragma unroll
      for (int j = 0; j < r; ++j) x[r] -= block[r * row_size + j] * x[j];
    }
    __syncwarp(0xffffu);
#pragma unroll
    for (int r = 0; r < 16; ++r) block[r * row_size + column] = x[r];
  }
}

// (I + L)^-1 in place. `matrix` [kSize, row_size] holds the strictly lower L (other elements are
// not read); afterwards the lower triangle of the inverse. `scratch` holds kSize / 2 rows of
// row_size. Blocks of 16, then pairs of blocks: the lower left of [A 0; L B]^-1 is -B^-1 L A^-1.
// The products have fp32 accuracy. Needs kSize / 16 warps of the block or more; all threads call
// it, and it ends with a barrier.
template <int kSize>
__device__ void InvertUnitLower(float* matrix, int row_size, float* scratch) {
  using Operand = cuda::Fp32Operand;
  const int warp = cuda::WarpId();
  constexpr int kBlocks = kSize / 16;
  if (warp < kBlocks) InvertDiagonalBlock(matrix + warp * 16 * (row_size + 1), row_size);
  __syncthreads();
#pragma unroll
  for (int size = 16; size < kSize; size *= 2) {
    // Every pair of diagonal blocks of `size` has (size / 16)^2 tiles to fill.
    const int tiles_per_side = size / 16;
    const int tiles_per_pair = tiles_per_side * tiles_per_side;
    const int num_tiles = kSize / (2 * size) * tiles_per_pair;
    const int pair = warp / tiles_per_pair;
    const int row = warp % tiles_per_pair / tiles_per_side * 16;
    const int column = warp % tiles_per_side * 16;
    const bool has_tile = warp < num_tiles;
    float* upper = matrix + pair * 2 * size * (row_size + 1);  // A^-1
    float* lower = upper + size * row_size;                    // L
    float* corner = lower + size;                              // B^-1
    float* product = scratch + pair * size * row_size;         // L A^-1
    cuda::Accumulators c[1];
    const auto multiply = [&](const float* left, const float* right, int begin, int end) {
      cuda::Clear(c);
      for (int k = begin; k < end; k += 16) {
        const auto a = Operand::LoadA(left + row * row_size + k, row_size);
        const auto b = Operand::LoadBTransposed(right + k * row_size + column, row_size);
        cuda::MultiplyAdd<Operand>(c[0], a, b);
      }
    };
    if (has_tile) {
      multiply(lower, upper, column, size);  // A^-1 is lower triangular
      cuda::StoreRows(product + row * row_size + column, row_size, 16, c[0]);
    }
    __syncthreads();
    if (has_tile) {
      multiply(corner, product, 0, row + 16);
#pragma unroll
      for (int e = 0; e < 8; ++e) c[0][e / 4][e % 4] *= -1;
      cuda::StoreRows(lower + row * row_size + column, row_size, 16, c[0]);
    }
    __syncthreads();
  }
}

}  // namespace mixerbench::kernels::delta_rule
