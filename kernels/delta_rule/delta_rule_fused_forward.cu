// The delta rule forward in one kernel, for many sequences: factors and walk. Maths: delta_rule.md.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/delta_rule/delta_rule_fused.cuh"
#include "kernels/delta_rule/delta_rule_gates.cuh"
#include "kernels/delta_rule/unit_lower_inverse.cuh"

namespace mixerbench::kernels::delta_rule {
namespace {

using warpgroup::Depth;
using warpgroup::Element;
using warpgroup::kC;
using warpgroup::Tile;

constexpr int kDk = 64;
constexpr int kMatrixRow = PaddedRow(kC);
constexpr int kFactorGroups = 2;
constexpr int kStages = 4;
constexpr int kSlots = 3;
constexpr float kLog2E = 1.44269504f;

template <int kWalkGroups>
struct FusedForwardShared {
  struct Stage {
    Tile q, k;
    Tile v[kWalkGroups];
  };
  struct Slot {
    Tile x, a;
  };
  Stage stages[kStages];  // of chunk c: c % kStages
  Slot slots[kSlots];     // its factors: c % kSlots
  float l[kFactorGroups][kC * kMatrixRow];
  alignas(16) warpgroup::Gates gates[kSlots];
  std::uint64_t is_ready[kSlots];    // factors and tokens of a chunk are there
  std::uint64_t is_walked[kStages];  // and no longer needed
};

// A warpgroup writes the 16x16 blocks of a tile that are not above the diagonal.
__device__ void CopyLower(Element* matrix, const Tile& tile) {
#pragma unroll
  for (int step = 0; step < warpgroup::kTileElements / 8 / warpgroup::kThreads; ++step) {
    const int i = step * warpgroup::kThreads + static_cast<int>(threadIdx.x) % warpgroup::kThreads;
    const int row = i / 8;
    const int piece = i % 8;
    if (piece / 2 > row / 16) continue;
    *reinterpret_cast<uint4*>(matrix + 8 * i) =
        *reinterpret_cast<const uint4*>(tile.x + warpgroup::Swizzled(row, 8 * piece));
  }
}

// Block: all of V of one (b, h) at a time, blocks take sequences in turn. Two warpgroups form the
// factors of every other chunk each and copy its tokens two chunks ahead; a warpgroup for 64
// columns of V walks. State and sums fp32 in registers. Deterministic.
template <int kWalkGroups>
__global__ void __launch_bounds__((kFactorGroups + kWalkGroups) * warpgroup::kThreads, 1)
    FusedForwardKernel(const DeltaRuleSizes sizes, const Sequence q, const Sequence k,
                       const Sequence v, const float* __restrict__ log_decay,
                       const float* __restrict__ beta, const DeltaRuleFactorData factors,
                       const float* __restrict__ initial_state, const Sequence o,
                       float* __restrict__ final_state, const DeltaRuleSaved saved,
                       const Sequence saved_y) {
  extern __shared__ __align__(1024) char shared_bytes[];
  auto& shared = *reinterpret_cast<FusedForwardShared<kWalkGroups>*>(shared_bytes);
  const ChunkOrder order(sizes, /*reverse=*/false);
  const int thread = static_cast<int>(threadIdx.x);
  const int group = thread / warpgroup::kThreads;
  const int warp = warpgroup::WarpOfGroup();
  if (thread == 0) {
    for (auto& barrier : shared.is_ready) cuda::InitBarrier(&barrier, warpgroup::kThreads);
    for (auto& barrier : shared.is_walked) {
      cuda::InitBarrier(&barrier, kWalkGroups * warpgroup::kThreads);
    }
  }
  // What lies above the diagonal blocks of X and A is never written again.
  for (auto& slot : shared.slots) {
    for (int i = thread; i < 2 * warpgroup::kTileElements / 8; i += static_cast<int>(blockDim.x)) {
      reinterpret_cast<uint4*>(slot.x.x)[i] = {0, 0, 0, 0};
    }
  }
  warpgroup::PublishToProducts();
  __syncthreads();

  if (group < kFactorGroups) {
    warpgroup::GiveRegisters<kWalkGroups == 2 ? 112 : 0>();
    const int group_thread = thread % warpgroup::kThreads;
    const auto sync = [&] { warpgroup::SyncGroup(group); };
    LaneGates<kC> lane_gates;  // the first warp: of the chunk that comes next
    const auto load = [&](int c) {
      const auto [row, n] = order.At(c);
      auto& stage = shared.stages[c % kStages];
      const int num_valid = order.NumValid(n);
      const auto rows = [&](const Sequence& x) {
        return TokenRow<const Element>(x, sizes.num_heads, row, n * kC);
      };
      warpgroup::CopyRowsAsync<warpgroup::kThreads, 1>(&stage.k, rows(k), k.token_stride,
                                                       num_valid);
      warpgroup::CopyRowsAsync<warpgroup::kThreads, 1>(&stage.q, rows(q), q.token_stride,
                                                       num_valid);
      warpgroup::CopyRowsAsync<warpgroup::kThreads, kWalkGroups>(stage.v, rows(v), v.token_stride,
                                                                 num_valid);
      if (warp == 0) {
        const std::int64_t gate = order.Gate(row, n);
        lane_gates.Load(log_decay == nullptr ? nullptr : log_decay + gate, beta + gate,
                        sizes.num_heads, num_valid);
      }
      cuda::CommitCopies();
    };
    if (group < order.size()) load(group);
#pragma unroll 1
    for (int c = group; c < order.size(); c += kFactorGroups) {
      const auto [row, n] = order.At(c);
      const std::int64_t chunk = order.Chunk(row, n);
      auto& stage = shared.stages[c % kStages];
      auto& slot = shared.slots[c % kSlots];
      auto& gates = shared.gates[c % kSlots];
      float* const l = shared.l[group];
      const bool keeps = factors.x != nullptr;
      if (c >= kSlots) WaitForChunk<kStages>(shared.is_walked, c - kSlots);
      if (warp == 0) ComputeGates<kC>(gates, lane_gates);
      cuda::WaitForCopies<0>();
      warpgroup::PublishToProducts();
      sync();
      const int next = c + kFactorGroups;
      if (next < order.size()) {
        if (next >= kStages) WaitForChunk<kStages>(shared.is_walked, next - kStages);
        load(next);
      }
      const int row_block = 16 * warp;
#pragma unroll 1
      for (int pass = 0; pass < 2; ++pass) {
        const bool is_a = pass == 1;
        Accumulators pairs[4];
        warpgroup::Fence();
        warpgroup::MultiplyTiles<Depth::kAlongRows, Depth::kAlongRows>(
            pairs, warpgroup::Descriptor(is_a ? stage.q : stage.k, 0, 0),
            warpgroup::Descriptor(stage.k, 0, 0), false);
        warpgroup::Commit();
        float row_log_decay[2], row_factor[2];  // of rows g and g + 8, the former to base 2
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int i = row_block + cuda::BlockRow(2 * half);
          row_log_decay[half] = kLog2E * gates[kCumulativeLogDecay][i];
          row_factor[half] = is_a ? sizes.scale : gates[kBeta][i];
        }
        warpgroup::Wait<0>(pairs);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          if (j > warp) continue;
#pragma unroll
          for (int e = 0; e < 8; ++e) {
            const int column = cuda::BlockColumn(e / 4, e % 4);
            const bool is_lower = j < warp || column <= cuda::BlockRow(e % 4);
            const float decay = cuda::Exp2(row_log_decay[e % 4 / 2] -
                                           kLog2E * gates[kCumulativeLogDecay][16 * j + column]);
            float& pair = pairs[j][e / 4][e % 4];
            pair = is_lower ? pair * (decay * row_factor[e % 4 / 2]) : 0;
          }
          if (is_a) {
            warpgroup::StoreRows(slot.a, row_block, 16 * j, pairs[j]);
          } else {
            cuda::StoreRows(l + row_block * kMatrixRow + 16 * j, kMatrixRow, 16, pairs[j]);
          }
        }
      }
      if (keeps) {
        for (int i = group_thread; i < kNumGates * kC; i += warpgroup::kThreads) {
          factors.gates[chunk * kNumGates * kC + i] = (&gates[0][0])[i];
        }
      }
      sync();
      InvertUnitLower<cuda::Tf32Operand, kC / 16>(
          l, kMatrixRow, warp, sync, [&](int i, int j, const Accumulators& x) {
            warpgroup::StoreColumns(slot.x, 16 * i, 16 * j, x);
          });
      warpgroup::PublishToProducts();
      sync();
      if (keeps) {
        CopyLower(static_cast<Element*>(factors.x) + chunk * kC * kC, slot.x);
        CopyLower(static_cast<Element*>(factors.a) + chunk * kC * kC, slot.a);
      }
      cuda::Arrive(&shared.is_ready[c % kSlots]);
    }
    return;
  }

  warpgroup::TakeRegisters<kWalkGroups == 2 ? 144 : 0>();
  const int walk_group = group - kFactorGroups;
  const int column = walk_group * 64 + 16 * warp;  // first of this warp's columns of V
  Accumulators state[1][kDk / 16];                 // S^T, 64 x K
#pragma unroll 1
  for (int c = 0; c < order.size(); ++c) {
    const auto [row, n] = order.At(c);
    if (n == 0) {
      LoadState(state[0], StateColumn(initial_state, sizes, row, column), sizes.head_v_dim);
    }
    if (saved.states != nullptr) {
      Element* p = static_cast<Element*>(saved.states) +
                   (order.Chunk(row, n) * sizes.head_v_dim + column) * kDk;
#pragma unroll
      for (int d = 0; d < kDk / 16; ++d) cuda::StoreRows(p + 16 * d, kDk, 16, state[0][d]);
    }
    WaitForChunk<kSlots>(shared.is_ready, c);
    const auto& stage = shared.stages[c % kStages];
    const auto& slot = shared.slots[c % kSlots];
    const int num_valid = order.NumValid(n);
    const auto token_rows = [&, row = row, n = n](const Sequence& x) {
      return TokenRow<Element>(x, sizes.num_heads, row, n * kC) + column;
    };
    warpgroup::WalkForward<kDk>(
        state, &stage.q, &stage.k, stage.v[walk_group], slot.x, slot.a, shared.gates[c % kSlots],
        sizes.scale,
        [&](const Accumulators(&out)[4]) {
          warpgroup::StoreTokens(o, token_rows(o), num_valid, out);
        },
        [&](const Accumulators(&y)[4]) {
          if (saved.y != nullptr) {
            warpgroup::StoreTokens(saved_y, token_rows(saved_y), num_valid, y);
          }
        });
    cuda::Arrive(&shared.is_walked[c % kStages]);
    if (n + 1 == order.num_chunks()) {
      StoreState(state[0], StateColumn(final_state, sizes, row, column), sizes.head_v_dim);
    }
  }
}

}  // namespace

int DeltaRuleFusedForward(const DeltaRuleSizes& sizes, const DeltaRulePlan& plan, const Sequence& q,
                          const Sequence& k, const Sequence& v, const float* log_decay,
                          const float* beta, const DeltaRuleFactorData& factors,
                          const float* initial_state, const Sequence& o, float* final_state,
                          const DeltaRuleSaved& saved, CUstream_st* stream) {
  const auto launch = [&]<int kWalkGroups>() {
    static_assert(sizeof(FusedForwardShared<kWalkGroups>) <= kFusedBytes);
    const std::int64_t num_blocks = min(sizes.batch_size * sizes.num_heads,
                                        static_cast<std::int64_t>(plan.fused_multiprocessors));
    return cuda::Launch(FusedForwardKernel<kWalkGroups>, num_blocks,
                        (kFactorGroups + kWalkGroups) * warpgroup::kThreads,
                        sizeof(FusedForwardShared<kWalkGroups>), stream, sizes, q, k, v, log_decay,
                        beta, factors, initial_state, o, final_state, saved,
                        Contiguous(saved.y, sizes, sizes.head_v_dim));
  };
  return sizes.head_v_dim == 64 ? launch.template operator()<1>() : launch.template operator()<2>();
}

}  // namespace mixerbench::kernels::delta_rule
