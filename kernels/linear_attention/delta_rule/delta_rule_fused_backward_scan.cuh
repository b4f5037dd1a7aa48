// The scan of the fused backward kernel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/linear_attention/delta_rule/delta_rule_fused_backward.cuh"

namespace mixerbench::kernels::delta_rule {

// This lane's part of the sum of products of a warp's rows [16,64] with those of a tile.
template <int kValueTiles, bool kHasDecay>
__device__ float FusedBackward<kValueTiles, kHasDecay>::Product(const Accumulators (&rows)[kBlocks],
                                                                const Tile& tile) const {
  float sum = 0;
#pragma unroll
  for (int d = 0; d < kBlocks; ++d) {
    Accumulators x;
    device::FromOperand<warpgroup::Operand>(x, warpgroup::LoadA(tile, RowBlock(), 16 * d));
#pragma unroll
    for (int e = 0; e < 8; ++e) sum += rows[d][e / 4][e % 4] * x[e / 4][e % 4];
  }
  return sum;
}

template <int kValueTiles, bool kHasDecay>
__device__ void FusedBackward<kValueTiles, kHasDecay>::Scan() {
  const int row_block = RowBlock();               // first of this warp's columns of V, of 64
  Accumulators d_state[kValueTiles][1][kBlocks];  // G^T, V x K
#pragma unroll 1
  for (Chunk chunk = First(); Exists(chunk); chunk = After(chunk)) {
    const unsigned c = chunk.count;
    const auto& stage = shared_.stages[c % kStages];
    auto& scanned = shared_.scanned[c % kScannedStages];
    const auto state_column = [&](auto* states, int u) {
      return StateColumn(states, args_.sizes, chunk.row, 64 * u + row_block);
    };
    if (chunk.n == last_) {
#pragma unroll
      for (int u = 0; u < kValueTiles; ++u) {
        LoadState(d_state[u][0], state_column(args_.d_final_state, u), kHeadV);
      }
    }
    WaitForLoads(c);
    float states_product = 0;  // <S, G>
#pragma unroll
    for (int u = 0; u < kValueTiles; ++u) {
      warpgroup::ScanBackward<kDk, kHasDecay>(
          d_state[u], &stage.q, &stage.k, stage.d_o[u], stage.x, stage.a,
          shared_.gates[c % kGateStages], args_.sizes.scale,
          [&] {
            if (u == 0 && c >= kScannedStages) Wait(shared_.is_taken, c - kScannedStages);
#pragma unroll
            for (int d = 0; d < kBlocks; ++d) {
              warpgroup::StoreRows(scanned.d_state[u], row_block, 16 * d, d_state[u][0][d]);
            }
            if constexpr (kHasDecay) {
              states_product += Product(d_state[u][0], stage.state[u]);
            }
          },
          [&](const Accumulators(&p)[kBlocks]) {
#pragma unroll
            for (int i = 0; i < kBlocks; ++i) {
              warpgroup::StoreColumns(scanned.p[u], 16 * i, row_block, p[i]);
            }
            warpgroup::PublishToProducts();
            if (u + 1 == kValueTiles) device::Arrive(&shared_.is_scanned[c % kScannedStages]);
          });
    }
    if (chunk.n == 0 && args_.d_initial_state != nullptr) {
#pragma unroll
      for (int u = 0; u < kValueTiles; ++u) {
        StoreState(d_state[u][0], state_column(args_.d_initial_state, u), kHeadV);
      }
    }
    if constexpr (kHasDecay) {
      shared_.sums[c % kGateStages].PutStatesProduct(warpgroup::WarpOfGroup(), states_product);
    }
    device::Arrive(&shared_.is_done[c % kStages]);
  }
}

}  // namespace mixerbench::kernels::delta_rule
