// Pairs of tokens of one block whose decays are too strong to be factored (gla.md): each
// query takes the keys at its own position, where all factors are at most 1. Queries and keys are
// as they were given, the queries times the scale; `gates` hold the sums b.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/linear_attention/gla/gla_fused.cuh"

namespace mixerbench::kernels::gla {

// The decays of keys in pairs with the query `reference` of this warp's block; 0 for later keys.
template <int kKeys>
__device__ inline void PairFactors(Accumulators& factors, const GateRows<kKeys>& gates, int row,
                                   int column, int reference) {
  Accumulators b;
  LoadSums(b, gates, row, column);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float2 at =
        *reinterpret_cast<const float2*>(gates.At(row + reference, column + BlockColumn(h, 0)));
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      factors[h][e] =
          BlockRow(e) <= reference ? device::Exp2((e % 2 == 0 ? at.x : at.y) - b[h][e]) : 0;
    }
  }
}

// The row `r` of a block, zeros elsewhere.
__device__ inline Left OneRow(const Left& a, int r) {
  Left one;
#pragma unroll
  for (int i = 0; i < 4; ++i) one.r[i] = BlockRow(2 * (i % 2)) == r ? a.r[i] : 0;
  return one;
}

__device__ inline Left Scaled(const Left& a, float scale) {
  Accumulators factors;
#pragma unroll
  for (int e = 0; e < 8; ++e) factors[e / 4][e % 4] = scale;
  return Scaled(a, factors);
}

// scores [query][key] += queries keysᵀ with the decays of every pair, over 16 channels.
template <int kKeys>
__device__ inline void AddPairScores(Accumulators& scores, const Left& queries, const Left& keys,
                                     const GateRows<kKeys>& gates, int row, int column) {
#pragma unroll 1
  for (int r = 0; r < kFusedBlock; ++r) {
    Accumulators factors;
    PairFactors(factors, gates, row, column, r);
    MultiplyAdd(scores, OneRow(queries, r), RowsAsColumns(Scaled(keys, factors)));
  }
}

// The inner part of d_q where pairs are taken one by one: d_q gets scale sum_j dA_ij k_j e^{b_i -
// b_j}, terms that times q. A block of 16 channels.
template <int kKeys>
__device__ inline void AddPairsToQueries(Accumulators& d_q, Accumulators& terms,
                                         const Left& d_weights, const Left& queries,
                                         const Left& keys, const GateRows<kKeys>& gates, int row,
                                         int column, float scale) {
  Accumulators sums = {};
#pragma unroll 1
  for (int r = 0; r < kFusedBlock; ++r) {
    Accumulators factors;
    PairFactors(factors, gates, row, column, r);
    MultiplyAdd(sums, OneRow(d_weights, r), RowsAsDepth(Scaled(keys, factors)));
  }
  Accumulators x;
  device::FromOperand<device::Bf16Operand>(x, queries);
  AddProduct(terms, x, sums);
#pragma unroll
  for (int e = 0; e < 8; ++e) d_q[e / 4][e % 4] += scale * sums[e / 4][e % 4];
}

// The same of d_k, and the scores [key][query]. d_weights is transposed, too.
template <int kKeys>
__device__ inline void AddPairsToKeys(Accumulators& d_k, Accumulators& terms, Accumulators& scores,
                                      const Left& d_weights, const Left& queries, const Left& keys,
                                      const GateRows<kKeys>& gates, int row, int column) {
  Accumulators sums = {};
#pragma unroll 1
  for (int r = 0; r < kFusedBlock; ++r) {
    Accumulators factors;
    PairFactors(factors, gates, row, column, r);
    const Left query = OneRow(queries, r);
    const Left decayed = Scaled(keys, factors);
    MultiplyAdd(scores, decayed, RowsAsColumns(query));
    Accumulators sum = {};
    MultiplyAdd(sum, d_weights, RowsAsDepth(query));
    AddProduct(sums, sum, factors);
    // As the query had the key: what both tokens add to the terms cancels.
    Accumulators x;
    device::FromOperand<device::Bf16Operand>(x, decayed);
    SubtractProduct(terms, x, sum);
  }
#pragma unroll
  for (int e = 0; e < 8; ++e) d_k[e / 4][e % 4] += sums[e / 4][e % 4];
}

}  // namespace mixerbench::kernels::gla
