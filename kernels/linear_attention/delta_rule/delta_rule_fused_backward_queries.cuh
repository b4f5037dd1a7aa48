// The role of queries of the fused backward kernel: copies, dA, dq and dV.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/linear_attention/delta_rule/delta_rule_fused_backward.cuh"

namespace mixerbench::kernels::delta_rule {

template <int kValueTiles, bool kHasDecay>
__device__ void FusedBackward<kValueTiles, kHasDecay>::Load(const Chunk& chunk) {
  if (!Exists(chunk)) return;
  auto& stage = shared_.stages[chunk.count % kStages];
  auto* const barrier = &shared_.is_loaded[chunk.count % kStages];
  const int index = chunk.row * (last_ + 1) + chunk.n;  // among all chunks
  const int thread = static_cast<int>(threadIdx.x);
  if (device::LaneId() == 0) {
    // The warps take turns, since a copy takes one thread a hundred cycles to start.
    constexpr int kWarps = kThreads / 32;
    constexpr int kNumCopies = 2 + 3 * kValueTiles;
    const int warp = device::WarpId();
    device::ExpectBytes(barrier,
                        (kNumCopies - warp + kWarps - 1) / kWarps * static_cast<int>(sizeof(Tile)));
    const auto copy = [&](int turn, Tile* tile, const CUtensorMap& map, int column) {
      if (turn % kWarps != warp) return;
      CopyTokens(tile, map, column, chunk.head, chunk.first_token(), chunk.batch, barrier);
    };
    copy(0, &stage.k, args_.k_tiles, 0);
    copy(1, &stage.q, args_.q_tiles, 0);
#pragma unroll
    for (int u = 0; u < kValueTiles; ++u) {
      copy(2 + 2 * u, &stage.y[u], args_.y_tiles, 64 * u);
      if ((3 + 2 * u) % kWarps == warp) {
        CopyTokens(&stage.state[u], args_.state_tiles, 0, 0, index * kHeadV + 64 * u, 0, barrier);
      }
    }
#pragma unroll
    for (int u = 0; u < kValueTiles; ++u) {
      copy(2 + 2 * kValueTiles + u, &stage.d_o[u], args_.d_o_tiles, 64 * u);
    }
  }
  const auto copy_pairs = [&](Tile* tile, const void* pairs) {
    warpgroup::CopyRowsAsync<kThreads, 1, true>(
        tile, static_cast<const Element*>(pairs) + static_cast<std::int64_t>(index) * kC * kC, kC,
        kC);
  };
  copy_pairs(&stage.a, args_.factors.a);
  copy_pairs(&stage.x, args_.factors.x);
  if (4 * thread < kNumGates * kC) {
    device::CopyAsync16(
        &shared_.gates[chunk.count % kGateStages][0][0] + 4 * thread,
        args_.factors.gates + static_cast<std::int64_t>(index) * kNumGates * kC + 4 * thread);
  }
  device::ArriveAfterCopies(barrier);
  const int token = thread % kC;
  const int column = thread / kC * 64;
  if (column < kHeadV && token < NumValid(chunk)) {
    device::PrefetchToL2(TokenRows(args_.v, chunk) + token * args_.v.token_stride + column);
  }
}

// dA = s (dO Y^T) D, for the role of keys too, and dq = s e^b (dO S^T) + dA K.
template <int kValueTiles, bool kHasDecay>
__device__ void FusedBackward<kValueTiles, kHasDecay>::FormQueryGradients(const Chunk& chunk,
                                                                          float (&db)[2]) {
  const unsigned c = chunk.count;
  WaitForLoads(c);
  const auto& stage = shared_.stages[c % kStages];
  const auto& gates = shared_.gates[c % kGateStages];
  const float scale = args_.sizes.scale;
  Accumulators d_a[kBlocks], dq[kBlocks];
  warpgroup::Fence();
  MultiplyValues<kRows, kRows>(d_a, stage.d_o, stage.y);
  MultiplyValues<kRows, kColumns>(dq, stage.d_o, stage.state);
  const Decays decays(gates[kCumulativeLogDecay], RowBlock());
  float entering[2];  // of tokens g and g + 8 of this warp
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    entering[half] = gates[kEntering][RowBlock() + device::BlockRow(2 * half)];
  }
  warpgroup::Wait<1>(d_a);
  StorePairs(d_a, decays, shared_.d_a[c % kStages]);
  warpgroup::PublishToProducts();
  device::Arrive(&shared_.is_paired[c % kStages]);
  device::Bf16Operand::A operands[kBlocks];
  warpgroup::ToOperands(operands, d_a);
  warpgroup::Wait<0>(dq);
#pragma unroll
  for (int d = 0; d < kBlocks; ++d) {
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      dq[d][e / 4][e % 4] *= kHasDecay ? scale * entering[e % 4 / 2] : scale;
    }
  }
  warpgroup::Fence();
  warpgroup::MultiplyTiles<kColumns>(dq, operands, warpgroup::Descriptor(stage.k), true);
  warpgroup::Commit();
  warpgroup::Wait<0>(dq);
  if constexpr (kHasDecay) {
#pragma unroll
    for (int d = 0; d < kBlocks; ++d) {
      Accumulators q_d;
      device::FromOperand<warpgroup::Operand>(q_d, warpgroup::LoadA(stage.q, RowBlock(), 16 * d));
#pragma unroll
      for (int e = 0; e < 8; ++e) db[e % 4 / 2] += q_d[e / 4][e % 4] * dq[d][e / 4][e % 4];
    }
  }
  WriteRows(0, dq, shared_.dq, args_.dq_tiles, chunk);
}

template <int kValueTiles, bool kHasDecay>
__device__ void FusedBackward<kValueTiles, kHasDecay>::LoadValues(const Chunk& chunk,
                                                                  ValueRows& values) const {
  const int thread = static_cast<int>(threadIdx.x);
  const Element* const v = TokenRows(args_.v, chunk) + thread % 8 * 8;
#pragma unroll
  for (int step = 0; step < kC / kTokensPerStep; ++step) {
    const int token = min(step * kTokensPerStep + thread / 8, NumValid(chunk) - 1);
#pragma unroll
    for (int u = 0; u < kValueTiles; ++u) {
      values[step][u] = LoadVector(v + token * args_.v.token_stride + 64 * u);
    }
  }
}

// dV = beta P and <P_i, v_i>
template <int kValueTiles, bool kHasDecay>
__device__ void FusedBackward<kValueTiles, kHasDecay>::FormValueGradients(const Chunk& chunk,
                                                                          const ValueRows& values,
                                                                          float (&pv)[kC]) {
  const unsigned c = chunk.count;
  const int thread = static_cast<int>(threadIdx.x);
  const int column = thread % 8 * 8;
  const int num_valid = NumValid(chunk);
  const auto& scanned = shared_.scanned[c % kScannedStages];
  Element* const dv = TokenRows(args_.gradients.v, chunk) + column;
  float sums[kC / kTokensPerStep];
#pragma unroll
  for (int step = 0; step < kC / kTokensPerStep; ++step) {
    const int token = step * kTokensPerStep + thread / 8;
    const float beta = shared_.gates[c % kGateStages][kBeta][token];
    float sum = 0;
#pragma unroll
    for (int u = 0; u < kValueTiles; ++u) {
      const auto p_i = LoadVector(scanned.p[u].x + warpgroup::Swizzled(token, column));
      uint4 out;
      std::uint32_t* words = &out.x;
#pragma unroll
      for (int e = 0; e < 8; e += 2) {
        const float p_0 = __bfloat162float(p_i.x[e]);
        const float p_1 = __bfloat162float(p_i.x[e + 1]);
        sum += p_0 * __bfloat162float(values[step][u].x[e]) +
               p_1 * __bfloat162float(values[step][u].x[e + 1]);
        words[e / 2] = device::PackBf16(beta * p_0, beta * p_1);
      }
      if (token < num_valid) {
        *reinterpret_cast<uint4*>(dv + token * args_.gradients.v.token_stride + 64 * u) = out;
      }
    }
    sums[step] = sum;
  }
  // Lanes that share a token add up, each for half of the tokens, then for one.
  static_assert(kC / kTokensPerStep == 4);
  const int lane = thread % 8;
  const bool upper = lane / 4 == 1;
  float pair[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float other = device::ShuffleXor(upper ? sums[i] : sums[2 + i], 4);
    pair[i] = (upper ? sums[2 + i] : sums[i]) + other;
  }
  const bool odd = lane / 2 % 2 == 1;
  float sum = (odd ? pair[1] : pair[0]) + device::ShuffleXor(odd ? pair[0] : pair[1], 2);
  sum += device::ShuffleXor(sum, 1);
  if (lane % 2 == 0) pv[lane / 2 * kTokensPerStep + thread / 8] = sum;
}

template <int kValueTiles, bool kHasDecay>
__device__ void FusedBackward<kValueTiles, kHasDecay>::Queries() {
  Chunk chunk = First();
  Load(chunk);
#pragma unroll 1
  while (Exists(chunk)) {
    const unsigned c = chunk.count;
    ValueRows values;  // as early as registers allow
    if constexpr (kValueTiles == 1) LoadValues(chunk, values);
    if (c > 0) {
      Wait(shared_.is_done, c - 1);
      WaitForRows();
      warpgroup::SyncGroup(0);
    }
    Load(After(chunk));
    float db[2] = {0, 0};  // <q, dq>
    FormQueryGradients(chunk, db);
    if constexpr (kValueTiles > 1) LoadValues(chunk, values);
    Wait(shared_.is_scanned, c);
    auto& sums = shared_.sums[c % kGateStages];
    FormValueGradients(chunk, values, sums.pv);
    if constexpr (kHasDecay) sums.Put(sums.db[0], RowBlock(), db);
    device::Arrive(&shared_.is_taken[c % kScannedStages]);
    chunk = After(chunk);
  }
  WaitForRows();
}

}  // namespace mixerbench::kernels::delta_rule
