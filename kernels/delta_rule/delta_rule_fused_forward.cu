// The delta rule forward in one kernel, for many sequences: factors and walk. Maths: delta_rule.md.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/delta_rule/delta_rule_fused.cuh"
#include "kernels/delta_rule/delta_rule_pairs.cuh"
#include "kernels/delta_rule/delta_rule_token_copies.cuh"

namespace mixerbench::kernels::delta_rule {
namespace {

using warpgroup::Depth;
using warpgroup::Element;
using warpgroup::kC;
using warpgroup::Tile;

constexpr int kDk = 64;

// A block fills a multiprocessor: a warpgroup that forms factors, two that walk, each a sequence of
// its own (V = 64) or half of the columns of V, and one that brings what they need and keeps what
// the backward pass needs; it gives its registers to the others.
constexpr int kWalkGroups = 2;
constexpr int kThreads = (2 + kWalkGroups) * warpgroup::kThreads;
constexpr int kKeepingWarps = 3;
constexpr int kBringingRegisters = 32;
constexpr int kFactorRegisters = 144;
constexpr int kWalkRegisters = 168;
constexpr int kSlots = 3;

// Tokens are copied so many chunks before the rest.
template <int kValueTiles>
constexpr int kTokensAhead = kValueTiles == 1 ? 2 : 1;
template <int kValueTiles>
constexpr int kTokenStages = kSlots + kTokensAhead<kValueTiles>;
template <int kValueTiles>
constexpr int kWalks = kWalkGroups / kValueTiles;  // sequences at once

template <int kValueTiles>
struct FusedForwardShared {
  struct Tokens {
    Tile q, k;
  };
  struct Slot {
    Tile x, a;
    Tile v[kValueTiles];
  };
  Tokens tokens[kTokenStages<kValueTiles>];  // chunks in turn
  Slot slots[kSlots];                        // their factors and V
  struct Leaving {
    Tile o, state;
  };
  Leaving leaving[kWalkGroups];  // on their way to memory
  HalfMatrix matrices[2];        // in turn too
  alignas(16) warpgroup::Gates gates[kSlots];
  std::uint64_t has_tokens[kTokenStages<kValueTiles>];  // tokens of a chunk are there
  std::uint64_t has_gates[kSlots];                      // its gates are there and its slot is free
  std::uint64_t is_ready[kSlots];                       // V and factors are there
  std::uint64_t is_walked[kSlots];                      // and all of it no longer needed
};

struct FusedForwardMaps {
  CUtensorMap q, k, v, o;
  CUtensorMap y, states;  // of DeltaRuleSaved, if something is kept
};

// A warp writes the 16x16 blocks of a tile that are not above the diagonal, by pieces of eight:
// those of rows `first`, `first` + `step`, ... among groups of four rows.
__device__ void CopyLower(Element* matrix, const Tile& tile, int first, int step) {
  const int column = cuda::LaneId() % 8 * 8;
  for (int i = first; i < kC / 4; i += step) {
    const int row = 4 * i + cuda::LaneId() / 8;
    if (column / 16 > i / 4) continue;
    *reinterpret_cast<uint4*>(matrix + row * kC + column) =
        *reinterpret_cast<const uint4*>(tile.x + warpgroup::Swizzled(row, column));
  }
}

// A warp's 16 columns of a chunk, transposed, to their place in a tile of tokens.
__device__ void StoreColumnsOfWarp(Tile& tile, const warpgroup::Operand::A (&c)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    warpgroup::StoreColumns(tile, 16 * i, 16 * warpgroup::WarpOfGroup(), c[i]);
  }
}

// Block: all of V of one or two (b, h) at a time, blocks take sequences in turn. State and sums
// fp32 in registers. Deterministic.
template <int kValueTiles, bool kHasDecay>
__global__ void __launch_bounds__(kThreads, 1)
    FusedForwardKernel(const DeltaRuleSizes sizes, const __grid_constant__ FusedForwardMaps maps,
                       const float* __restrict__ log_decay, const float* __restrict__ beta,
                       const DeltaRuleFactorData factors, const float* __restrict__ initial_state,
                       float* __restrict__ final_state, void* __restrict__ states) {
  constexpr int kHeadV = 64 * kValueTiles;
  using Cursor = ChunkCursor<kWalks<kValueTiles>>;
  using TokensTurn = Turn<kTokenStages<kValueTiles>>;
  using SlotTurn = Turn<kSlots>;
  extern __shared__ __align__(1024) char shared_bytes[];
  auto& shared = *reinterpret_cast<FusedForwardShared<kValueTiles>*>(shared_bytes);
  const int thread = static_cast<int>(threadIdx.x);
  // The same in all lanes, and known to be.
  const int group = __shfl_sync(~0u, thread / warpgroup::kThreads, 0);
  const int warp = __shfl_sync(~0u, warpgroup::WarpOfGroup(), 0);
  const bool keeps = factors.x != nullptr;
  if (thread == 0) {
    for (auto& barrier : shared.has_tokens) cuda::InitBarrier(&barrier, 1);
    for (auto& barrier : shared.has_gates) cuda::InitBarrier(&barrier, 32);
    for (auto& barrier : shared.is_ready) cuda::InitBarrier(&barrier, warpgroup::kThreads);
    for (auto& barrier : shared.is_walked) {
      cuda::InitBarrier(&barrier,
                        kValueTiles * warpgroup::kThreads + (keeps ? 32 * kKeepingWarps : 0));
    }
    ShowBarriersToCopies();
  }
  // What lies above the diagonal blocks of X and A is never written again.
  for (auto& slot : shared.slots) {
    for (int i = thread; i < 2 * warpgroup::kTileElements / 8; i += kThreads) {
      reinterpret_cast<uint4*>(slot.x.x)[i] = {0, 0, 0, 0};
    }
  }
  warpgroup::PublishToProducts();
  __syncthreads();

  if (group > kWalkGroups) {
    warpgroup::GiveRegisters<kBringingRegisters>();
    if (warp > 0) {  // warps that keep X and A
      if (!keeps) return;
      Cursor at(sizes, 0);
      SlotTurn slot_turn;
#pragma unroll 1
      while (at.exists()) {
        const auto& slot = shared.slots[slot_turn.place];
        const std::int64_t first = at.chunk() * kC * kC;
        cuda::WaitForPhase(&shared.is_ready[slot_turn.place], slot_turn.parity);
        CopyLower(static_cast<Element*>(factors.x) + first, slot.x, warp - 1, kKeepingWarps);
        CopyLower(static_cast<Element*>(factors.a) + first, slot.a, warp - 1, kKeepingWarps);
        cuda::Arrive(&shared.is_walked[slot_turn.place]);
        at.NextOfBlock();
        slot_turn = slot_turn.After(1);
      }
      return;
    }
    const bool is_first_lane = cuda::LaneId() == 0;
    Cursor ahead(sizes, 0);
    TokensTurn ahead_turn;
    const auto copy_tokens = [&] {
      if (ahead.exists() && is_first_lane) {
        auto& tokens = shared.tokens[ahead_turn.place];
        auto* const barrier = &shared.has_tokens[ahead_turn.place];
        ExpectBytes(barrier, sizeof(tokens));
        const int head = ahead.head();
        const int batch = ahead.batch();
        CopyTokens(&tokens.k, maps.k, 0, head, ahead.first_token(), batch, barrier);
        CopyTokens(&tokens.q, maps.q, 0, head, ahead.first_token(), batch, barrier);
        cuda::Arrive(barrier);
      }
      ahead.NextOfBlock();
      ahead_turn = ahead_turn.After(1);
    };
    for (int i = 0; i < kTokensAhead<kValueTiles>; ++i) copy_tokens();
    Cursor at(sizes, 0);
    SlotTurn slot_turn;
    LaneGates<kC> lane_gates;  // of the chunk that comes next
    const auto load_gates = [&] {
      const std::int64_t gate = at.gate();
      lane_gates.Load(kHasDecay ? log_decay + gate : nullptr, beta + gate, sizes.num_heads,
                      at.num_valid());
    };
    load_gates();
#pragma unroll 1
    while (at.exists()) {
      auto& slot = shared.slots[slot_turn.place];
      auto& gates = shared.gates[slot_turn.place];
      // With the slot the place of the next tokens is free.
      cuda::WaitForPhase(&shared.is_walked[slot_turn.place], slot_turn.parity ^ 1);
      copy_tokens();
      if (is_first_lane) {
        auto* const barrier = &shared.is_ready[slot_turn.place];
        ExpectBytes(barrier, sizeof(slot.v));
        const int head = at.head();
        const int batch = at.batch();
#pragma unroll
        for (int u = 0; u < kValueTiles; ++u) {
          CopyTokens(&slot.v[u], maps.v, 64 * u, head, at.first_token(), batch, barrier);
        }
      }
      ComputeGates<kC>(gates, lane_gates);
      cuda::SyncWarp();
      cuda::Arrive(&shared.has_gates[slot_turn.place]);
      if (keeps) {
        float* const to = factors.gates + at.chunk() * kNumGates * kC;
        for (int i = 4 * cuda::LaneId(); i < kNumGates * kC; i += 4 * 32) {
          *reinterpret_cast<float4*>(to + i) = *reinterpret_cast<const float4*>(&gates[0][0] + i);
        }
      }
      at.NextOfBlock();
      if (at.exists()) load_gates();
      slot_turn = slot_turn.After(1);
    }
    return;
  }

  if (group == 0) {
    warpgroup::TakeRegisters<kFactorRegisters>();
    Cursor at(sizes, 0);
    TokensTurn tokens_turn;
    SlotTurn slot_turn;
    Turn<2> matrix_turn;
#pragma unroll 1
    while (at.exists()) {
      const auto& tokens = shared.tokens[tokens_turn.place];
      const auto& gates = shared.gates[slot_turn.place];
      auto& slot = shared.slots[slot_turn.place];
      auto& matrix = shared.matrices[matrix_turn.place];
      const auto multiply = [&](Accumulators(&pairs)[4], const Tile& rows) {
        warpgroup::Fence();
        warpgroup::MultiplyTiles<Depth::kAlongRows, Depth::kAlongRows>(
            pairs, warpgroup::Descriptor(rows), warpgroup::Descriptor(tokens.k), false);
        warpgroup::Commit();
      };
      cuda::WaitForPhase(&shared.has_tokens[tokens_turn.place], tokens_turn.parity);
      cuda::WaitForPhase(&shared.has_gates[slot_turn.place], slot_turn.parity);
      Accumulators pairs[4];
      multiply(pairs, tokens.k);
      const PairDecays<kHasDecay> decays(gates, warp);
      warpgroup::Wait<0>(pairs);
      StoreMinusL(pairs, decays, gates, warp, matrix);
      multiply(pairs, tokens.q);
      cuda::SyncWarp();
      InvertDiagonal(matrix, warp);
      warpgroup::Wait<0>(pairs);
      StoreA(pairs, decays, sizes.scale, warp, slot.a);
      warpgroup::SyncGroup(0);
      InvertColumn(matrix, warp, [&](int i, const Accumulators& x) {
        warpgroup::StoreColumns(slot.x, 16 * i, 16 * warp, x);
      });
      warpgroup::PublishToProducts();
      cuda::Arrive(&shared.is_ready[slot_turn.place]);
      at.NextOfBlock();
      tokens_turn = tokens_turn.After(1);
      slot_turn = slot_turn.After(1);
      matrix_turn = matrix_turn.After(1);
    }
    return;
  }

  warpgroup::TakeRegisters<kWalkRegisters>();
  const int walk = kValueTiles == 1 ? group - 1 : 0;
  const int value_tile = kValueTiles == 1 ? 0 : group - 1;
  const int column = value_tile * 64 + 16 * warp;  // first of this warp's columns of V
  const bool is_first_thread = thread % warpgroup::kThreads == 0;
  auto& leaving = shared.leaving[group - 1];
  Accumulators state[1][kDk / 16];  // S^T, 64 x K
  Cursor at(sizes, walk);
  TokensTurn tokens_turn = TokensTurn().After(walk);
  SlotTurn slot_turn = SlotTurn().After(walk);
#pragma unroll 1
  while (at.exists()) {
    if (at.is_first()) {
      LoadState(state[0], StateColumn(initial_state, sizes, at.row(), column), kHeadV);
      if (keeps) {
        Element* const to = static_cast<Element*>(states) + (at.chunk() * kHeadV + column) * kDk;
#pragma unroll
        for (int d = 0; d < kDk / 16; ++d) cuda::StoreRows(to + 16 * d, kDk, 16, state[0][d]);
      }
    }
    cuda::WaitForPhase(&shared.has_tokens[tokens_turn.place], tokens_turn.parity);
    cuda::WaitForPhase(&shared.is_ready[slot_turn.place], slot_turn.parity);
    const auto& tokens = shared.tokens[tokens_turn.place];
    auto& slot = shared.slots[slot_turn.place];
    auto& v = slot.v[value_tile];
    const int head = at.head();
    const int batch = at.batch();
    warpgroup::WalkForward<kDk, kHasDecay>(
        state, &tokens.q, &tokens.k, v, slot.x, slot.a, shared.gates[slot_turn.place], sizes.scale,
        [&](const warpgroup::Operand::A(&out)[4]) { StoreColumnsOfWarp(leaving.o, out); },
        [&](const warpgroup::Operand::A(&y)[4]) {
          // Y takes the place of V. After the barrier the other tiles have left too.
          if (keeps) StoreColumnsOfWarp(v, y);
          if (is_first_thread) WaitForWrites<0>();
          warpgroup::PublishToProducts();
          warpgroup::SyncGroup(group);
          if (keeps && is_first_thread) {
            WriteTokens(maps.y, 64 * value_tile, head, at.first_token(), batch, v);
            CommitWrites();
          }
        });
    const bool keeps_state = keeps && !at.is_last();
    if (keeps_state) {
#pragma unroll
      for (int d = 0; d < kDk / 16; ++d) {
        warpgroup::StoreRows(leaving.state, 16 * warp, 16 * d, state[0][d]);
      }
    }
    warpgroup::PublishToProducts();
    warpgroup::SyncGroup(group);
    if (is_first_thread) {
      WriteTokens(maps.o, 64 * value_tile, head, at.first_token(), batch, leaving.o);
      if (keeps_state) {
        const auto next = static_cast<int>(at.chunk() + 1);
        WriteTokens(maps.states, 0, 0, next * kHeadV + 64 * value_tile, 0, leaving.state);
      }
      CommitWrites();
      WaitForWrites<1>();  // Y has left the place of V
    }
    cuda::Arrive(&shared.is_walked[slot_turn.place]);
    if (at.is_last()) {
      StoreState(state[0], StateColumn(final_state, sizes, at.row(), column), kHeadV);
    }
    const int num_walks = at.num_walks();
    at.NextOfWalk();
    tokens_turn = tokens_turn.After(num_walks);
    slot_turn = slot_turn.After(num_walks);
  }
  if (is_first_thread) WaitForWrites<0>();
}

}  // namespace

int DeltaRuleFusedForward(const DeltaRuleSizes& sizes, const DeltaRulePlan& plan, const Sequence& q,
                          const Sequence& k, const Sequence& v, const float* log_decay,
                          const float* beta, const DeltaRuleFactorData& factors,
                          const float* initial_state, const Sequence& o, float* final_state,
                          const DeltaRuleSaved& saved, CUstream_st* stream) {
  FusedForwardMaps maps = {};
  cudaError_t status = MapTokens(q, sizes, sizes.head_k_dim, &maps.q);
  if (status == cudaSuccess) status = MapTokens(k, sizes, sizes.head_k_dim, &maps.k);
  if (status == cudaSuccess) status = MapTokens(v, sizes, sizes.head_v_dim, &maps.v);
  if (status == cudaSuccess) status = MapTokens(o, sizes, sizes.head_v_dim, &maps.o);
  if (saved.states != nullptr) {
    const Sequence y = Contiguous(saved.y, sizes, sizes.head_v_dim);
    if (status == cudaSuccess) status = MapTokens(y, sizes, sizes.head_v_dim, &maps.y);
    // [B,H,N,V,K] as one sequence of rows.
    const DeltaRuleSizes rows = {
        .batch_size = 1,
        .seq_len = sizes.batch_size * sizes.num_heads * NumChunks(sizes) * sizes.head_v_dim,
        .num_heads = 1};
    const Sequence states = Contiguous(saved.states, rows, sizes.head_k_dim);
    if (status == cudaSuccess) status = MapTokens(states, rows, sizes.head_k_dim, &maps.states);
  }
  if (status != cudaSuccess) return status;
  const auto launch = [&]<int kValueTiles, bool kHasDecay>() {
    using Shared = FusedForwardShared<kValueTiles>;
    static_assert(sizeof(Shared) <= kFusedBytes);
    const std::int64_t num_blocks = min(sizes.batch_size * sizes.num_heads,
                                        static_cast<std::int64_t>(plan.fused_multiprocessors));
    return cuda::Launch(FusedForwardKernel<kValueTiles, kHasDecay>, num_blocks, kThreads,
                        sizeof(Shared), stream, sizes, maps, log_decay, beta, factors,
                        initial_state, final_state, saved.states);
  };
  if (sizes.head_v_dim == 64) {
    return log_decay == nullptr ? launch.template operator()<1, false>()
                                : launch.template operator()<1, true>();
  }
  return log_decay == nullptr ? launch.template operator()<2, false>()
                              : launch.template operator()<2, true>();
}

}  // namespace mixerbench::kernels::delta_rule
