// What a chunk of the fused forward pass needs of its pairs of tokens: L and A from the products of
// keys with keys and queries with keys. Maths: delta_rule.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/delta_rule/delta_rule_gates.cuh"
#include "kernels/delta_rule/unit_lower_inverse_half.cuh"

namespace mixerbench::kernels::delta_rule {

constexpr float kLog2E = 1.44269504f;

// The diagonal block of a warp's rows.
__device__ inline void SelectDiagonal(Accumulators& diagonal, const Accumulators (&rows)[4],
                                      int warp) {
#pragma unroll
  for (int e = 0; e < 8; ++e) {
    diagonal[e / 4][e % 4] = rows[0][e / 4][e % 4];
#pragma unroll
    for (int j = 1; j < 4; ++j) {
      if (j == warp) diagonal[e / 4][e % 4] = rows[j][e / 4][e % 4];
    }
  }
}

// The decays D_ij of a warp's 16 rows i of a chunk, by blocks of 16 columns j. Without kHasDecay
// all of them are one.
template <bool kHasDecay>
class PairDecays {
 public:
  __device__ PairDecays(const warpgroup::Gates& gates, int warp)
      : b_(gates[kCumulativeLogDecay]), first_(16 * warp) {
    if constexpr (kHasDecay) {
      first_b_ = kLog2E * b_[first_];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        row_b_[i] = kLog2E * b_[first_ + cuda::BlockRow(2 * i)];
        row_[i] = cuda::Exp2(row_b_[i] - first_b_);
      }
    }
  }

  // Block j left of the diagonal block: D_ij = e^{b_i - r} e^{r - b_j} with r = b of the first row,
  // neither factor above one.
  __device__ void Scale(Accumulators& pairs, int j) const {
    if constexpr (kHasDecay) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float column = cuda::Exp2(first_b_ - ColumnB(16 * j, e));
#pragma unroll
        for (int i = 0; i < 2; ++i) pairs[e / 2][2 * i + e % 2] *= row_[i] * column;
      }
    }
  }

  // The diagonal block; what lies above the diagonal means nothing then.
  __device__ void ScaleDiagonal(Accumulators& pairs) const {
    if constexpr (kHasDecay) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float b = ColumnB(first_, e);
#pragma unroll
        for (int i = 0; i < 2; ++i) pairs[e / 2][2 * i + e % 2] *= cuda::Exp2(row_b_[i] - b);
      }
    }
  }

 private:
  // b of this lane's column e % 2 of the half e / 2 of a block, to base 2.
  __device__ float ColumnB(int first_column, int e) const {
    return kLog2E * b_[first_column + cuda::BlockColumn(e / 2, e % 2)];
  }

  const float (&b_)[warpgroup::kC];
  int first_;
  float first_b_;
  float row_b_[2], row_[2];  // of rows g and g + 8
};

// Rows of K K^T become -L, in fp16 off the diagonal blocks and in fp32 there.
template <bool kHasDecay>
__device__ void StoreMinusL(Accumulators (&kk)[4], const PairDecays<kHasDecay>& decays,
                            const warpgroup::Gates& gates, int warp, HalfMatrix& l) {
  const float minus_beta[2] = {-gates[kBeta][16 * warp + cuda::BlockRow(0)],
                               -gates[kBeta][16 * warp + cuda::BlockRow(2)]};
  const auto multiply = [&](Accumulators& c) {
#pragma unroll
    for (int e = 0; e < 8; ++e) c[e / 4][e % 4] *= minus_beta[e % 4 / 2];
  };
  Accumulators diagonal;
  SelectDiagonal(diagonal, kk, warp);
  decays.ScaleDiagonal(diagonal);
  multiply(diagonal);
#pragma unroll
  for (int e = 0; e < 8; e += 2) {
    float* const at = l.diagonal[warp] + cuda::BlockRow(e % 4) * HalfMatrix::kDiagonalRow +
                      cuda::BlockColumn(e / 4, e % 4);
    *reinterpret_cast<float2*>(at) = {diagonal[e / 4][e % 4], diagonal[e / 4][e % 4 + 1]};
  }
#pragma unroll
  for (int j = 0; j < 3; ++j) {
    if (j >= warp) continue;
    decays.Scale(kk[j], j);
    multiply(kk[j]);
    StoreMinusL(l, warp, j, kk[j]);
  }
}

// Rows of Q K^T become A.
template <bool kHasDecay>
__device__ void StoreA(Accumulators (&qk)[4], const PairDecays<kHasDecay>& decays, float scale,
                       int warp, warpgroup::Tile& a) {
  Accumulators diagonal;
  SelectDiagonal(diagonal, qk, warp);
  decays.ScaleDiagonal(diagonal);
#pragma unroll
  for (int e = 0; e < 8; ++e) {
    float& pair = diagonal[e / 4][e % 4];
    pair = cuda::BlockColumn(e / 4, e % 4) <= cuda::BlockRow(e % 4) ? scale * pair : 0.f;
  }
  warpgroup::StoreRows(a, 16 * warp, 16 * warp, diagonal);
#pragma unroll
  for (int j = 0; j < 3; ++j) {
    if (j >= warp) continue;
    decays.Scale(qk[j], j);
#pragma unroll
    for (int e = 0; e < 8; ++e) qk[j][e / 4][e % 4] *= scale;
    warpgroup::StoreRows(a, 16 * warp, 16 * j, qk[j]);
  }
}

}  // namespace mixerbench::kernels::delta_rule
