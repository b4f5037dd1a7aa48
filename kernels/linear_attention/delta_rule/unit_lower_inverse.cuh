// The inverse of a unit lower triangular matrix in shared memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/device/tiles.cuh"

namespace mixerbench::kernels::delta_rule {

// Diagonal blocks, in place: substitution in fp32, one lane a column. Row r of the inverse is
// X_r = e_r - sum_{j<r} L_rj X_j.
__device__ inline void InvertDiagonalBlock(float* block, int row_size) {
  const int column = device::LaneId();
  if (column < 16) {
    float x[16];
#pragma unroll
    for (int r = 0; r < 16; ++r) {
      x[r] = r == column ? 1.f : 0.f;
#pragma unroll
      for (int j = 0; j < r; j += 4) {
        const float4 l = *reinterpret_cast<const float4*>(block + r * row_size + j);
        x[r] -= l.x * x[j];
        if (j + 1 < r) x[r] -= l.y * x[j + 1];
        if (j + 2 < r) x[r] -= l.z * x[j + 2];
        if (j + 3 < r) x[r] -= l.w * x[j + 3];
      }
    }
    __syncwarp(0xffffu);
#pragma unroll
    for (int r = 0; r < 16; ++r) block[r * row_size + column] = x[r];
  }
}

// (I + L)^-1 =: X. `matrix` [16 kBlocks, row_size] holds the strictly lower L (other elements are
// not read) and is overwritten; rows begin at multiples of 16 bytes. With D the blocks of I + L on
// the diagonal, warp j < kBlocks forms the blocks X_ij = -D_i^-1 sum_{j<=k<i} L_ik X_kj one after
// the other and calls store(i, j, X_ij transposed). Operand: of the products, Tf32 or Fp32. `warp`:
// of this thread among those that call it, which is all that sync() waits for. Begins with the
// matrix visible to all.
template <typename Operand, int kBlocks, typename Sync, typename Store>
__device__ void InvertUnitLower(float* matrix, int row_size, int warp, const Sync& sync,
                                const Store& store) {
  const int j = warp;
  const auto block = [&](int i, int k) { return matrix + i * 16 * row_size + k * 16; };
  if (j < kBlocks) InvertDiagonalBlock(block(j, j), row_size);
  sync();
  if (j >= kBlocks) return;
  typename Operand::A column[kBlocks];  // X_ij transposed, as left operands
#pragma unroll
  for (int i = 0; i < kBlocks; ++i) {
    if (i < j) continue;
    device::Accumulators x;
    if (i == j) {
      column[i] = Operand::LoadATransposed(block(i, i), row_size);
      device::FromOperand<Operand>(x, column[i]);
    } else {
      device::Accumulators sum[1];
      device::Clear(sum);
#pragma unroll
      for (int k = 0; k < i; ++k) {
        if (k < j) continue;
        device::MultiplyAdd<Operand>(sum[0], column[k], Operand::LoadB(block(i, k), row_size));
      }
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        sum[0][e / 4][e % 4] *= -1;
        x[e / 4][e % 4] = 0;
      }
      device::MultiplyAdd<Operand>(x, device::ToOperand<Operand>(sum[0]),
                                   Operand::LoadB(block(i, i), row_size));
      column[i] = device::ToOperand<Operand>(x);
    }
    store(i, j, x);
  }
}

}  // namespace mixerbench::kernels::delta_rule
