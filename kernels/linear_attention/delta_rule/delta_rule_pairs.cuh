// What a chunk of the fused forward pass needs of its pairs of tokens: L and A from the products of
// keys with keys and queries with keys. Maths: delta_rule.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/linear_attention/delta_rule/delta_rule_gates.cuh"
#include "kernels/linear_attention/delta_rule/unit_lower_inverse_half.cuh"

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

// What a chunk's blocks of 16x16 pairs of a warp's rows are multiplied by: decays D_ij, and with
// them -beta for L and the scale for A. Without kHasDecay all decays are one.
template <bool kHasDecay>
class PairFactors {
 public:
  __device__ PairFactors(const warpgroup::Gates& gates, float scale, int warp)
      : b_(gates[kCumulativeLogDecay]), first_(16 * warp), scale_(scale) {
#pragma unroll
    for (int i = 0; i < 2; ++i) minus_beta_[i] = -gates[kBeta][first_ + device::BlockRow(2 * i)];
    if constexpr (kHasDecay) {
#pragma unroll
      for (int i = 0; i < 2; ++i) row_b_[i] = kLog2E * b_[first_ + device::BlockRow(2 * i)];
    }
  }

  // Block j left of the diagonal block: D_ij = e^{b_i - r} e^{r - b_j} with r = b of the first row,
  // neither factor above one.
  __device__ void Multiply(Accumulators& kk, Accumulators& qk, int j) const {
    float l_row[2], a_row[2];
    float first_b = 0;
    if constexpr (kHasDecay) first_b = kLog2E * b_[first_];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float decay = kHasDecay ? device::Exp2(row_b_[i] - first_b) : 1.f;
      l_row[i] = decay * minus_beta_[i];
      a_row[i] = decay * scale_;
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float column = kHasDecay ? device::Exp2(first_b - ColumnB(16 * j, e)) : 1.f;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        kk[e / 2][2 * i + e % 2] *= l_row[i] * column;
        qk[e / 2][2 * i + e % 2] *= a_row[i] * column;
      }
    }
  }

  // The diagonal block; what lies above the diagonal becomes zero in qk and means nothing in kk.
  __device__ void MultiplyDiagonal(Accumulators& kk, Accumulators& qk) const {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float decay = kHasDecay ? device::Exp2(row_b_[i] - ColumnB(first_, e)) : 1.f;
        const bool is_lower = device::BlockColumn(e / 2, e % 2) <= device::BlockRow(2 * i);
        kk[e / 2][2 * i + e % 2] *= decay * minus_beta_[i];
        float& a = qk[e / 2][2 * i + e % 2];
        a = is_lower ? a * (decay * scale_) : 0.f;
      }
    }
  }

 private:
  // b of this lane's column e % 2 of the half e / 2 of a block, to base 2.
  __device__ float ColumnB(int first_column, int e) const {
    return kLog2E * b_[first_column + device::BlockColumn(e / 2, e % 2)];
  }

  const float (&b_)[warpgroup::kC];
  int first_;
  float scale_;
  float minus_beta_[2], row_b_[2];  // of rows g and g + 8; b to base 2
};

// A warp's rows of K K^T and Q K^T become -L, in fp16 off the diagonal blocks and in fp32 there,
// and A.
template <bool kHasDecay>
__device__ void StorePairs(Accumulators (&kk)[4], Accumulators (&qk)[4],
                           const PairFactors<kHasDecay>& factors, int warp, HalfMatrix& l,
                           warpgroup::Tile& a) {
  Accumulators kk_diagonal, qk_diagonal;
  SelectDiagonal(kk_diagonal, kk, warp);
  SelectDiagonal(qk_diagonal, qk, warp);
  factors.MultiplyDiagonal(kk_diagonal, qk_diagonal);
#pragma unroll
  for (int e = 0; e < 8; e += 2) {
    float* const at = l.diagonal[warp] + device::BlockRow(e % 4) * HalfMatrix::kDiagonalRow +
                      device::BlockColumn(e / 4, e % 4);
    *reinterpret_cast<float2*>(at) = {kk_diagonal[e / 4][e % 4], kk_diagonal[e / 4][e % 4 + 1]};
  }
  warpgroup::StoreRows(a, 16 * warp, 16 * warp, qk_diagonal);
#pragma unroll
  for (int j = 0; j < 3; ++j) {
    if (j >= warp) continue;
    factors.Multiply(kk[j], qk[j], j);
    StoreMinusL(l, warp, j, kk[j]);
    warpgroup::StoreRows(a, 16 * warp, 16 * j, qk[j]);
  }
}

}  // namespace mixerbench::kernels::delta_rule
