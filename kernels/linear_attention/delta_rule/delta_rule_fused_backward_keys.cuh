// The role of keys of the fused backward kernel: dKK, M and dk, and the gradients of gates.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/linear_attention/delta_rule/delta_rule_fused_backward.cuh"

namespace mixerbench::kernels::delta_rule {

// dKK = -(P Y^T) Ds, M = -e^b (P S^T) + dKK K and
// dk = w (Y G^T) + dA^T Q + dKK^T K' + beta M, with K' = beta K as it is rounded.
template <int kValueTiles, bool kHasDecay>
__device__ void FusedBackward<kValueTiles, kHasDecay>::FormKeyGradients(const Chunk& chunk) {
  const unsigned c = chunk.count;
  auto& stage = shared_.stages[c % kStages];
  const auto& scanned = shared_.scanned[c % kScannedStages];
  const auto& gates = shared_.gates[c % kGateStages];
  Accumulators d_l[kBlocks], m[kBlocks], dk[kBlocks];
  warpgroup::Fence();
  MultiplyValues<kRows, kRows>(d_l, scanned.p, stage.y);
  MultiplyValues<kRows, kColumns>(dk, stage.y, scanned.d_state);
  const Decays decays(gates[kCumulativeLogDecay], RowBlock());
  float beta[2], entering[2], leaving[2];  // of tokens g and g + 8 of this warp
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int token = RowBlock() + device::BlockRow(2 * half);
    beta[half] = gates[kBeta][token];
    entering[half] = gates[kEntering][token];
    leaving[half] = gates[kLeaving][token];
  }
  warpgroup::Wait<1>(d_l);
  device::Bf16Operand::A d_kk[kBlocks];
#pragma unroll
  for (int j = 0; j < kBlocks; ++j) {
    Accumulators beta_k;  // of 16 channels
    device::FromOperand<warpgroup::Operand>(beta_k, warpgroup::LoadA(stage.k, RowBlock(), 16 * j));
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int column = 16 * j + device::BlockColumn(e / 4, e % 4);
      float& d_kk_e = d_l[j][e / 4][e % 4];
      d_kk_e = column < RowBlock() + device::BlockRow(e % 4) ? -decays(j, e) * d_kk_e : 0.f;
      beta_k[e / 4][e % 4] *= beta[e % 4 / 2];
    }
    d_kk[j] = device::ToOperand<warpgroup::Operand>(d_l[j]);
    warpgroup::StoreRows(stage.x, RowBlock(), 16 * j, d_kk[j]);
    warpgroup::StoreRows(stage.a, RowBlock(), 16 * j, beta_k);
  }
  warpgroup::PublishToProducts();
  warpgroup::Fence();
  MultiplyValues<kRows, kColumns>(m, scanned.p, stage.state);
  warpgroup::Wait<1>(dk);
  float written[2] = {0, 0};  // <k, w (Y G^T)>
  if constexpr (kHasDecay) {
#pragma unroll
    for (int d = 0; d < kBlocks; ++d) {
      Accumulators k_d;
      device::FromOperand<warpgroup::Operand>(k_d, warpgroup::LoadA(stage.k, RowBlock(), 16 * d));
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const int half = e % 4 / 2;
        dk[d][e / 4][e % 4] *= leaving[half];
        written[half] += dk[d][e / 4][e % 4] * k_d[e / 4][e % 4];
      }
    }
  }
  warpgroup::Wait<0>(m);
  device::Arrive(&shared_.is_taken[c % kScannedStages]);
#pragma unroll
  for (int d = 0; d < kBlocks; ++d) {
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      m[d][e / 4][e % 4] *= kHasDecay ? -entering[e % 4 / 2] : -1.f;
    }
  }
  warpgroup::SyncGroup(1);
  Wait(shared_.is_paired, c);
  warpgroup::Fence();
  warpgroup::MultiplyTiles<kColumns>(m, d_kk, warpgroup::Descriptor(stage.k), true);
  warpgroup::MultiplyTiles<kColumns, kColumns>(dk, warpgroup::Descriptor(shared_.d_a[c % kStages]),
                                               warpgroup::Descriptor(stage.q), true);
  warpgroup::MultiplyTiles<kColumns, kColumns>(dk, warpgroup::Descriptor(stage.x),
                                               warpgroup::Descriptor(stage.a), true);
  warpgroup::Commit();
  warpgroup::Wait<0>(m, dk);

  float db[2] = {0, 0};
  float km[2] = {0, 0};
#pragma unroll
  for (int d = 0; d < kBlocks; ++d) {
    Accumulators k_d, beta_k_d;
    device::FromOperand<warpgroup::Operand>(k_d, warpgroup::LoadA(stage.k, RowBlock(), 16 * d));
    if constexpr (kHasDecay) {
      device::FromOperand<warpgroup::Operand>(beta_k_d,
                                              warpgroup::LoadA(stage.a, RowBlock(), 16 * d));
    }
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int half = e % 4 / 2;
      const float k_e = k_d[e / 4][e % 4];
      const float m_e = m[d][e / 4][e % 4];
      float& dk_e = dk[d][e / 4][e % 4];
      dk_e += beta[half] * m_e;
      if constexpr (kHasDecay) {
        db[half] += (beta_k_d[e / 4][e % 4] + beta[half] * k_e) * m_e - k_e * dk_e;
      }
      km[half] += k_e * m_e;
    }
  }
  device::Arrive(&shared_.is_done[c % kStages]);
  auto& sums = shared_.sums[c % kGateStages];
  sums.Put(sums.km[0], RowBlock(), km);
  if constexpr (kHasDecay) {
    sums.Put(sums.db[1], RowBlock(), db);
    sums.Put(sums.written[0], RowBlock(), written);
  }
  warpgroup::SyncGroup(1);
  WriteRows(1, dk, shared_.d_a[c % kStages], args_.dk_tiles, chunk);
}

// One warp, in turn, while the next chunk is scanned: for the scan itself all warps must be there.
template <int kValueTiles, bool kHasDecay>
__device__ void FusedBackward<kValueTiles, kHasDecay>::FinishGates(const Chunk& chunk) {
  const unsigned c = chunk.count;
  if (warpgroup::WarpOfGroup() != static_cast<int>(c % 4)) return;
  Wait(shared_.is_taken, c);
  Wait(shared_.is_done, c);
  const int gate = (chunk.batch * seq_len_ + chunk.first_token()) * num_heads_ + chunk.head;
  shared_.sums[c % kGateStages].Finish(shared_.gates[c % kGateStages], NumValid(chunk), num_heads_,
                                       gate, args_.gradients);
}

template <int kValueTiles, bool kHasDecay>
__device__ void FusedBackward<kValueTiles, kHasDecay>::Keys() {
  Chunk finished = First();
  Chunk chunk = finished;
#pragma unroll 1
  for (; Exists(chunk); chunk = After(chunk)) {
    if (chunk.count > 0) {
      WaitForRows();
      FinishGates(finished);
      finished = chunk;
    }
    WaitForLoads(chunk.count);
    Wait(shared_.is_scanned, chunk.count);
    FormKeyGradients(chunk);
  }
  FinishGates(finished);
  WaitForRows();
}

}  // namespace mixerbench::kernels::delta_rule
