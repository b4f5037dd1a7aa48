// The inverse of a unit lower triangular matrix [64,64] by a warpgroup, in products of fp16.
//
// The terms have the eleven bits of tf32, which is what an inverse that is rounded to bf16 needs,
// at half the instructions. Their range is smaller: entries beyond 65504 are lost, which entries of
// L and of its inverse reach for keys far longer than delta_rule.md allows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_fp16.h>

#include "kernels/device/tiles.cuh"
#include "kernels/linear_attention/delta_rule/warpgroup.cuh"

namespace mixerbench::kernels::delta_rule {

struct HalfMatrix {
  static constexpr int kBlocks = 4;
  static constexpr int kRow = device::PaddedRow(16 * kBlocks);
  static constexpr int kDiagonalRow = 20;  // rows of a block meet in no bank, and are aligned

  alignas(16) __half x[16 * kBlocks * kRow];  // -L, and the inverses of diagonal blocks
  alignas(16) float diagonal[kBlocks][16 * kDiagonalRow];  // diagonal blocks of -L

  __device__ __half* Block(int i, int j) { return x + 16 * i * kRow + 16 * j; }
};

__device__ inline std::uint32_t PackHalf(float low, float high) {
  const __half2 x = __floats2half2_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&x);
}

__device__ inline void MmaHalf(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                               std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// A block of accumulators as a left operand in fp16.
struct HalfOperand {
  std::uint32_t r[4];
};
__device__ inline HalfOperand ToHalfOperand(const device::Accumulators& c) {
  return {{PackHalf(c[0][0], c[0][1]), PackHalf(c[0][2], c[0][3]), PackHalf(c[1][0], c[1][1]),
           PackHalf(c[1][2], c[1][3])}};
}

// Block (i, j) of -L, below the diagonal.
__device__ inline void StoreMinusL(HalfMatrix& matrix, int i, int j,
                                   const device::Accumulators& c) {
  const int lane = device::LaneId();
  warpgroup::StoreMatrices(matrix.Block(i, j) + lane % 16 * HalfMatrix::kRow + lane / 16 * 8,
                           ToHalfOperand(c).r);
}

// d [8,8] = a b over a depth of 8, in the first rows of a product of 16.
__device__ inline void MmaHalfCorner(float (&d)[4], std::uint32_t a, std::uint32_t b) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
      "{%7,%7,%7,%7};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a), "r"(0), "r"(b), "f"(0.f));
}

// A warp inverts its diagonal block: the two blocks [8,8] on its diagonal by substitution in fp32,
// one lane a column (row r of the inverse is X_r = e_r + sum_{j<r} (-L)_rj X_j; lanes 16.. do the
// same as 0.. and store the other half of the rows), the one below by products. What lies above is
// zero and stays so.
__device__ inline void InvertDiagonal(HalfMatrix& matrix, int warp) {
  constexpr int kRow = HalfMatrix::kRow;
  constexpr int kDiagonalRow = HalfMatrix::kDiagonalRow;
  const int lane = device::LaneId();
  const int corner = lane % 16 / 8 * 8;
  const int column = lane % 8;
  const float* const block = matrix.diagonal[warp] + corner * (kDiagonalRow + 1);
  float x[8];
#pragma unroll
  for (int r = 0; r < 8; ++r) x[r] = r == column ? 1.f : 0.f;
#pragma unroll
  for (int j = 0; j < 8; j += 4) {
#pragma unroll
    for (int r = j + 1; r < 8; ++r) {
      const float4 l = *reinterpret_cast<const float4*>(block + r * kDiagonalRow + j);
      x[r] += l.x * x[j];
      if (j + 1 < r) x[r] += l.y * x[j + 1];
      if (j + 2 < r) x[r] += l.z * x[j + 2];
      if (j + 3 < r) x[r] += l.w * x[j + 3];
    }
  }
  __half* const inverse = matrix.Block(warp, warp);
  const bool is_upper = lane < 16;
  __half* const out = inverse + corner * (kRow + 1) + (is_upper ? 0 : 4 * kRow) + column;
#pragma unroll
  for (int r = 0; r < 4; ++r) out[r * kRow] = __float2half_rn(is_upper ? x[r] : x[r + 4]);
  device::SyncWarp();

  // X_10 = X_11 (-L_10) X_00, transposed: (X_00^T (-L_10)^T) X_11^T.
  const int g = lane / 4;
  const int t = 2 * (lane % 4);
  const __half2 x_00 = {inverse[t * kRow + g], inverse[(t + 1) * kRow + g]};
  const float2 l_10 =
      *reinterpret_cast<const float2*>(matrix.diagonal[warp] + (8 + g) * kDiagonalRow + t);
  const auto x_11 = *reinterpret_cast<const std::uint32_t*>(inverse + (8 + g) * kRow + 8 + t);
  float sum[4], x_10[4];
  MmaHalfCorner(sum, *reinterpret_cast<const std::uint32_t*>(&x_00), PackHalf(l_10.x, l_10.y));
  MmaHalfCorner(x_10, PackHalf(sum[0], sum[1]), x_11);
  inverse[(8 + t) * kRow + g] = __float2half_rn(x_10[0]);
  inverse[(9 + t) * kRow + g] = __float2half_rn(x_10[1]);
}

// With D the blocks of I + L on the diagonal, warp j forms the blocks
// X_ij = D_i^-1 sum_{j<=k<i} -L_ik X_kj one after the other and calls store(i, X_ij transposed).
template <typename Store>
__device__ void InvertColumn(HalfMatrix& matrix, int j, const Store& store) {
  constexpr int kBlocks = HalfMatrix::kBlocks;
  std::uint32_t l[kBlocks][kBlocks][4];  // right operands: memory [column][depth]
  const int lane = device::LaneId();
  const int at = (lane % 8 + lane / 16 * 8) * HalfMatrix::kRow + lane / 8 % 2 * 8;
#pragma unroll
  for (int i = 1; i < kBlocks; ++i) {
    if (i <= j) continue;
#pragma unroll
    for (int k = 0; k <= i; ++k) {
      if (k >= j) device::LoadMatrices(l[i][k], matrix.Block(i, k) + at);
    }
  }
  HalfOperand column[kBlocks];  // X_ij transposed
#pragma unroll
  for (int i = 0; i < kBlocks; ++i) {
    if (i < j) continue;
    device::Accumulators x;
    if (i == j) {
      device::LoadMatricesTransposed(column[i].r, matrix.Block(i, i) + at);
#pragma unroll
      for (int e = 0; e < 8; e += 2) {
        const std::uint32_t word = column[i].r[e % 4 / 2 + e / 4 * 2];
        const float2 pair = __half22float2(*reinterpret_cast<const __half2*>(&word));
        x[e / 4][e % 4] = pair.x;
        x[e / 4][e % 4 + 1] = pair.y;
      }
    } else {
      device::Accumulators sum = {};
#pragma unroll
      for (int k = 0; k < i; ++k) {
        if (k < j) continue;
        MmaHalf(sum[0], column[k].r, l[i][k][0], l[i][k][1]);
        MmaHalf(sum[1], column[k].r, l[i][k][2], l[i][k][3]);
      }
      const HalfOperand a = ToHalfOperand(sum);
#pragma unroll
      for (int e = 0; e < 8; ++e) x[e / 4][e % 4] = 0;
      MmaHalf(x[0], a.r, l[i][i][0], l[i][i][1]);
      MmaHalf(x[1], a.r, l[i][i][2], l[i][i][3]);
      column[i] = ToHalfOperand(x);
    }
    store(i, x);
  }
}

}  // namespace mixerbench::kernels::delta_rule
