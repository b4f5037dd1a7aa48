// The delta rule backward in one kernel, for many sequences: the walk over the gradients of states
// and the gradients of the inputs of each chunk it passes. Maths: delta_rule.md.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/delta_rule/delta_rule_chunk_sums.cuh"
#include "kernels/delta_rule/delta_rule_fused.cuh"

namespace mixerbench::kernels::delta_rule {
namespace {

using warpgroup::Depth;
using warpgroup::Element;
using warpgroup::kC;
using warpgroup::Tile;

constexpr int kDk = 64;
constexpr int kStages = 2;
constexpr int kGradientGroups = 2;
constexpr int kGradientThreads = kGradientGroups * warpgroup::kThreads;
constexpr int kWarpK = kDk / kGradientGroups;     // key channels of a warp
constexpr int kWarpPairs = kC / kGradientGroups;  // columns of dA and dL of a warp

template <int kWalkGroups>
struct FusedBackwardShared {
  // Of chunk c: c % kStages.
  struct Stage {
    Tile q, k;
    Tile x, a;  // then dKK and dA
    Tile d_o[kWalkGroups];
    Tile p[kWalkGroups], d_state[kWalkGroups];
  };
  Stage stages[kStages];
  Tile y[kWalkGroups], state[kWalkGroups], v[kWalkGroups];
  Tile beta_d_kk;  // beta_i dKK_ij
  alignas(16) warpgroup::Gates gates[kStages];
  ChunkSums<kC, kGradientGroups, kGradientThreads / 32> sums;
  std::uint64_t is_walked[kStages];  // P and G of a chunk are there
  std::uint64_t is_done[kStages];    // and no longer needed
};

// With 64 columns of V the walk has a warpgroup of its own and is one chunk ahead of the gradients.
// With 128 columns four warpgroups would be short of registers: two walk and form the gradients in
// turn.
template <int kWalkGroups>
constexpr bool kOverlaps = kWalkGroups == 1;
template <int kWalkGroups>
constexpr int kThreads =
    (kGradientGroups + (kOverlaps<kWalkGroups> ? kWalkGroups : 0)) * warpgroup::kThreads;

// Block: all of V of one (b, h) at a time, blocks take sequences in turn. A warpgroup for 64
// columns of V walks the chunks; in two warpgroups a warp owns 16 tokens and half of the key
// channels, or half of the columns of dA and dKK. Gradient of the state and sums fp32 in registers.
// Deterministic.
template <int kWalkGroups>
__global__ void __launch_bounds__(kThreads<kWalkGroups>, 1)
    FusedBackwardKernel(const DeltaRuleSizes sizes, const Sequence q, const Sequence k,
                        const Sequence v, const Sequence d_o, const DeltaRuleFactorData factors,
                        const DeltaRuleSaved saved, const Sequence saved_y,
                        const float* __restrict__ d_final_state,
                        float* __restrict__ d_initial_state,
                        const DeltaRuleGradientData gradients) {
  extern __shared__ __align__(1024) char shared_bytes[];
  auto& shared = *reinterpret_cast<FusedBackwardShared<kWalkGroups>*>(shared_bytes);
  const ChunkOrder order(sizes, /*reverse=*/true);
  const int thread = static_cast<int>(threadIdx.x);
  const int group = thread / warpgroup::kThreads;
  const int warp = warpgroup::WarpOfGroup();
  constexpr int kHeadV = 64 * kWalkGroups;
  if (thread == 0) {
    for (auto& barrier : shared.is_walked) {
      cuda::InitBarrier(&barrier, kWalkGroups * warpgroup::kThreads);
    }
    for (auto& barrier : shared.is_done) cuda::InitBarrier(&barrier, kGradientThreads);
  }
  __syncthreads();
  const auto token_rows = [&](const Sequence& x, int row, int n) {
    return TokenRow<Element>(x, sizes.num_heads, row, n * kC);
  };

  constexpr int kWalkThreads = kWalkGroups * warpgroup::kThreads;
  const auto load_stage = [&](int c) {
    if (c < order.size()) {
      const auto [row, n] = order.At(c);
      const std::int64_t chunk = order.Chunk(row, n);
      const int num_valid = order.NumValid(n);
      auto& stage = shared.stages[c % kStages];
      warpgroup::CopyRowsAsync<kWalkThreads, 1>(&stage.k, token_rows(k, row, n), k.token_stride,
                                                num_valid);
      warpgroup::CopyRowsAsync<kWalkThreads, kWalkGroups>(stage.d_o, token_rows(d_o, row, n),
                                                          d_o.token_stride, num_valid);
      warpgroup::CopyRowsAsync<kWalkThreads, 1, true>(
          &stage.a, static_cast<const Element*>(factors.a) + chunk * kC * kC, kC, kC);
      warpgroup::CopyRowsAsync<kWalkThreads, 1, true>(
          &stage.x, static_cast<const Element*>(factors.x) + chunk * kC * kC, kC, kC);
      warpgroup::CopyRowsAsync<kWalkThreads, 1>(&stage.q, token_rows(q, row, n), q.token_stride,
                                                num_valid);
      const int gate = thread % kWalkThreads * 4;
      if (gate < kNumGates * kC) {
        cuda::CopyAsync16(&shared.gates[c % kStages][0][0] + gate,
                          factors.gates + chunk * kNumGates * kC + gate);
      }
    }
    cuda::CommitCopies();
  };
  const int walk_group = group - (kOverlaps<kWalkGroups> ? kGradientGroups : 0);
  const int column = walk_group * 64 + 16 * warp;  // first of this warp's columns of V
  Accumulators d_state[1][kDk / 16];               // G^T, 64 x K, in the warps that walk
  const auto walk = [&](int c) {
    const auto [row, n] = order.At(c);
    auto& stage = shared.stages[c % kStages];
    if (n == order.num_chunks() - 1) {
      LoadState(d_state[0], StateColumn(d_final_state, sizes, row, column), kHeadV);
    }
#pragma unroll
    for (int d = 0; d < 4; ++d) {
      warpgroup::StoreRows(stage.d_state[walk_group], 16 * warp, 16 * d, d_state[0][d]);
    }
    warpgroup::WalkBackward<kDk>(
        d_state, &stage.q, &stage.k, stage.d_o[walk_group], stage.x, stage.a,
        shared.gates[c % kStages], sizes.scale, [&](const Accumulators(&p)[4]) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            warpgroup::StoreColumns(stage.p[walk_group], 16 * i, 16 * warp, p[i]);
          }
        });
    if (n == 0 && d_initial_state != nullptr) {
      StoreState(d_state[0], StateColumn(d_initial_state, sizes, row, column), kHeadV);
    }
    warpgroup::PublishToProducts();
  };
  if (kOverlaps<kWalkGroups> && group >= kGradientGroups) {
#pragma unroll 1
    for (int c = 0; c < order.size(); ++c) {
      if (c >= kStages) WaitForChunk<kStages>(shared.is_done, c - kStages);
      load_stage(c);
      cuda::WaitForCopies<0>();
      warpgroup::PublishToProducts();
      warpgroup::SyncGroup(1, kWalkThreads);
      walk(c);
      cuda::Arrive(&shared.is_walked[c % kStages]);
    }
    return;
  }

  const int row_block = 16 * warp;      // first of this warp's tokens
  const int channel = group * kWarpK;   // first of its key channels
  const int pair = group * kWarpPairs;  // first of its columns of pairs
  const auto sync = [] { warpgroup::SyncGroup(0, kGradientThreads); };
  const auto load_y_and_state = [&](int c) {
    if (c < order.size()) {
      const auto [row, n] = order.At(c);
      warpgroup::CopyRowsAsync<kGradientThreads, kWalkGroups>(
          shared.y, token_rows(saved_y, row, n), saved_y.token_stride, order.NumValid(n));
#pragma unroll
      for (int u = 0; u < kWalkGroups; ++u) {
        warpgroup::CopyRowsAsync<kGradientThreads, 1>(
            &shared.state[u],
            static_cast<const Element*>(saved.states) +
                (order.Chunk(row, n) * kHeadV + 64 * u) * kDk,
            kDk, kC);
      }
    }
    cuda::CommitCopies();
  };
  const auto load_v = [&](int c) {
    if (c < order.size()) {
      const auto [row, n] = order.At(c);
      warpgroup::CopyRowsAsync<kGradientThreads, kWalkGroups>(shared.v, token_rows(v, row, n),
                                                              v.token_stride, order.NumValid(n));
    }
    cuda::CommitCopies();
  };
  if (!kOverlaps<kWalkGroups>) load_stage(0);
  load_y_and_state(0);
  load_v(0);
#pragma unroll 1
  for (int c = 0; c < order.size(); ++c) {
    const auto [row, n] = order.At(c);
    const int num_valid = order.NumValid(n);
    auto& stage = shared.stages[c % kStages];
    const auto& gates = shared.gates[c % kStages];
    cuda::WaitForCopies<1>();  // all but V
    warpgroup::PublishToProducts();
    sync();
    if constexpr (kOverlaps<kWalkGroups>) {
      WaitForChunk<kStages>(shared.is_walked, c);
    } else {
      load_stage(c + 1);
      walk(c);
      sync();
    }

    constexpr auto kRows = Depth::kAlongRows;
    constexpr auto kColumns = Depth::kDownColumns;
    Accumulators d_a[kWarpPairs / 16];  // dO Y^T
    Accumulators d_l[kWarpPairs / 16];  // P Y^T
    warpgroup::Fence();
#pragma unroll
    for (int u = 0; u < kWalkGroups; ++u) {
      const auto y = warpgroup::Descriptor(shared.y[u], pair, 0);
      warpgroup::MultiplyTiles<kRows, kRows>(d_a, warpgroup::Descriptor(stage.d_o[u], 0, 0), y,
                                             u > 0);
      warpgroup::MultiplyTiles<kRows, kRows>(d_l, warpgroup::Descriptor(stage.p[u], 0, 0), y,
                                             u > 0);
    }
    warpgroup::Commit();

    // <S, G>: both tiles have their elements in the same places.
    float states_product = 0;
    if (gradients.log_decay != nullptr) {
      constexpr int kVectors = kWalkGroups * warpgroup::kTileElements / 8;
#pragma unroll
      for (int i = thread; i < kVectors; i += kGradientThreads) {
        const auto s = LoadVector(shared.state[0].x + 8 * i);
        const auto g = LoadVector(stage.d_state[0].x + 8 * i);
#pragma unroll
        for (int e = 0; e < 8; ++e) {
          states_product += __bfloat162float(s.x[e]) * __bfloat162float(g.x[e]);
        }
      }
    }
    float beta[2], b[2];  // of tokens g and g + 8 of this warp
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int token = row_block + cuda::BlockRow(2 * half);
      b[half] = gates[kCumulativeLogDecay][token];
      beta[half] = gates[kBeta][token];
    }
    warpgroup::Wait<0>(d_a, d_l);

    Accumulators dq[kWarpK / 16];  // dO S^T
    Accumulators m[kWarpK / 16];   // P S^T
    Accumulators dk[kWarpK / 16];  // Y G^T
    warpgroup::Fence();
#pragma unroll
    for (int u = 0; u < kWalkGroups; ++u) {
      const auto state = warpgroup::Descriptor(shared.state[u], 0, channel);
      warpgroup::MultiplyTiles<kRows, kColumns>(dq, warpgroup::Descriptor(stage.d_o[u], 0, 0),
                                                state, u > 0);
      warpgroup::MultiplyTiles<kRows, kColumns>(m, warpgroup::Descriptor(stage.p[u], 0, 0), state,
                                                u > 0);
      warpgroup::MultiplyTiles<kRows, kColumns>(dk, warpgroup::Descriptor(shared.y[u], 0, 0),
                                                warpgroup::Descriptor(stage.d_state[u], 0, channel),
                                                u > 0);
    }
    warpgroup::Commit();

    // dA = s (dO Y^T) D and dKK = -(P Y^T) Ds, as operands.
#pragma unroll
    for (int j = 0; j < kWarpPairs / 16; ++j) {
      Accumulators beta_d_kk;
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const int i = row_block + cuda::BlockRow(e % 4);
        const int column_j = pair + 16 * j + cuda::BlockColumn(e / 4, e % 4);
        const float decay =
            column_j <= i ? cuda::Exp(b[e % 4 / 2] - gates[kCumulativeLogDecay][column_j]) : 0.f;
        d_a[j][e / 4][e % 4] *= sizes.scale * decay;
        float& d_kk = d_l[j][e / 4][e % 4];
        d_kk = column_j < i ? -decay * d_kk : 0.f;
        beta_d_kk[e / 4][e % 4] = beta[e % 4 / 2] * d_kk;
      }
      warpgroup::StoreRows(stage.a, row_block, pair + 16 * j, d_a[j]);
      warpgroup::StoreRows(stage.x, row_block, pair + 16 * j, d_l[j]);
      warpgroup::StoreRows(shared.beta_d_kk, row_block, pair + 16 * j, beta_d_kk);
    }
    float entering[2], leaving[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int token = row_block + cuda::BlockRow(2 * half);
      entering[half] = gates[kEntering][token];
      leaving[half] = gates[kLeaving][token];
    }
    warpgroup::Wait<0>(dq, m, dk);

    float written[2] = {0, 0};  // <k, w (Y G^T)>
#pragma unroll
    for (int d = 0; d < kWarpK / 16; ++d) {
      Accumulators k_d;
      cuda::FromOperand<warpgroup::Operand>(k_d,
                                            warpgroup::LoadA(stage.k, row_block, channel + 16 * d));
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const int half = e % 4 / 2;
        dq[d][e / 4][e % 4] *= sizes.scale * entering[half];
        m[d][e / 4][e % 4] *= -entering[half];
        dk[d][e / 4][e % 4] *= leaving[half];
        written[half] += dk[d][e / 4][e % 4] * k_d[e / 4][e % 4];
      }
    }
    cuda::WaitForCopies<kOverlaps<kWalkGroups> ? 0 : 1>();  // V
    warpgroup::PublishToProducts();
    sync();
    load_y_and_state(c + 1);

    // dq = s e^b (dO S^T) + dA K,  M = -e^b (P S^T) + dKK K,
    // dk - beta M = w (Y G^T) + dA^T Q + dKK^T (beta K)
    {
      const auto k_channels = warpgroup::Descriptor(stage.k, 0, channel);
      const auto q_channels = warpgroup::Descriptor(stage.q, 0, channel);
      const auto d_a_tile = warpgroup::Descriptor(stage.a, 0, 0);
      warpgroup::Fence();
      warpgroup::MultiplyTiles<kRows, kColumns>(dq, d_a_tile, k_channels, true);
      warpgroup::MultiplyTiles<kRows, kColumns>(m, warpgroup::Descriptor(stage.x, 0, 0), k_channels,
                                                true);
      warpgroup::MultiplyTiles<kColumns, kColumns>(dk, d_a_tile, q_channels, true);
      warpgroup::MultiplyTiles<kColumns, kColumns>(
          dk, warpgroup::Descriptor(shared.beta_d_kk, 0, 0), k_channels, true);
      warpgroup::Commit();
    }

    // dV = beta P and <P_i, v_i>: neighbouring lanes share a token.
    constexpr int kLanesPerToken = kGradientThreads / kC;
    const int token = thread / kLanesPerToken;
    float pv = 0;
#pragma unroll
    for (int i = 0; i < kHeadV / 8 / kLanesPerToken; ++i) {
      const int piece = i * kLanesPerToken + thread % kLanesPerToken;
      const int at = warpgroup::Swizzled(token, piece % 8 * 8);
      const auto p_i = LoadVector(stage.p[piece / 8].x + at);
      const auto v_i = LoadVector(shared.v[piece / 8].x + at);
      uint4 out;
      std::uint32_t* words = &out.x;
#pragma unroll
      for (int e = 0; e < 8; e += 2) {
        const float p_0 = __bfloat162float(p_i.x[e]);
        const float p_1 = __bfloat162float(p_i.x[e + 1]);
        pv += p_0 * __bfloat162float(v_i.x[e]) + p_1 * __bfloat162float(v_i.x[e + 1]);
        words[e / 2] = cuda::PackBf16(gates[kBeta][token] * p_0, gates[kBeta][token] * p_1);
      }
      if (token < num_valid) {
        Element* dv =
            token_rows(gradients.v, row, n) + token * gradients.v.token_stride + piece * 8;
        *reinterpret_cast<uint4*>(dv) = out;
      }
    }
#pragma unroll
    for (int distance = kLanesPerToken / 2; distance > 0; distance /= 2) {
      pv += cuda::ShuffleXor(pv, distance);
    }
    if (thread % kLanesPerToken == 0) shared.sums.pv[token] = pv;
    warpgroup::Wait<0>(dq, m, dk);

    float db[2] = {0, 0};
    float km[2] = {0, 0};
#pragma unroll
    for (int d = 0; d < kWarpK / 16; ++d) {
      Accumulators q_d, k_d;
      cuda::FromOperand<warpgroup::Operand>(q_d,
                                            warpgroup::LoadA(stage.q, row_block, channel + 16 * d));
      cuda::FromOperand<warpgroup::Operand>(k_d,
                                            warpgroup::LoadA(stage.k, row_block, channel + 16 * d));
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const int half = e % 4 / 2;
        const float k_e = k_d[e / 4][e % 4];
        const float m_e = m[d][e / 4][e % 4];
        float& dk_e = dk[d][e / 4][e % 4];
        dk_e += beta[half] * m_e;
        db[half] += q_d[e / 4][e % 4] * dq[d][e / 4][e % 4] - k_e * dk_e;
        km[half] += k_e * m_e;
      }
    }
    const auto store = [&, row = row, n = n](const Sequence& x, const Accumulators& block, int d) {
      cuda::StoreRows(token_rows(x, row, n) + row_block * x.token_stride + channel + 16 * d,
                      static_cast<int>(x.token_stride), num_valid - row_block, block);
    };
#pragma unroll
    for (int d = 0; d < kWarpK / 16; ++d) {
      store(gradients.q, dq[d], d);
      store(gradients.k, dk[d], d);
    }
    shared.sums.Put(group, row_block, db, km, written, states_product);
    sync();
    load_v(c + 1);
    if (cuda::WarpId() == 0) {
      shared.sums.Finish(gates, num_valid, sizes.num_heads, order.Gate(row, n), gradients);
    }
    if constexpr (kOverlaps<kWalkGroups>) cuda::Arrive(&shared.is_done[c % kStages]);
  }
}

}  // namespace

int DeltaRuleFusedBackward(const DeltaRuleSizes& sizes, const DeltaRulePlan& plan,
                           const Sequence& q, const Sequence& k, const Sequence& v,
                           const Sequence& d_o, const DeltaRuleFactorData& factors,
                           const DeltaRuleSaved& saved, const float* d_final_state,
                           float* d_initial_state, const DeltaRuleGradientData& gradients,
                           CUstream_st* stream) {
  const auto launch = [&]<int kWalkGroups>() {
    static_assert(sizeof(FusedBackwardShared<kWalkGroups>) <= kFusedBytes);
    const std::int64_t num_blocks = min(sizes.batch_size * sizes.num_heads,
                                        static_cast<std::int64_t>(plan.fused_multiprocessors));
    return cuda::Launch(FusedBackwardKernel<kWalkGroups>, num_blocks, kThreads<kWalkGroups>,
                        sizeof(FusedBackwardShared<kWalkGroups>), stream, sizes, q, k, v, d_o,
                        factors, saved, Contiguous(saved.y, sizes, sizes.head_v_dim), d_final_state,
                        d_initial_state, gradients);
  };
  return sizes.head_v_dim == 64 ? launch.template operator()<1>() : launch.template operator()<2>();
}

}  // namespace mixerbench::kernels::delta_rule
