// The roles of warps in the fused forward kernel, FusedForwardKernel: produce, form
// factors, scan, store.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/linear_attention/delta_rule/delta_rule_fused.cuh"
#include "kernels/linear_attention/delta_rule/delta_rule_pairs.cuh"
#include "kernels/linear_attention/delta_rule/delta_rule_token_copies.cuh"

namespace mixerbench::kernels::delta_rule {

namespace fused_forward {

using warpgroup::Depth;
using warpgroup::Element;
using warpgroup::kC;
using warpgroup::Tile;

constexpr int kDk = 64;

// A block fills a multiprocessor: a warpgroup that forms factors, two that scan, each a sequence of
// its own (V = 64) or half of the columns of V, and one that brings what they need and keeps what
// the backward pass needs; it gives its registers to the others.
constexpr int kScanGroups = 2;
constexpr int kThreads = (2 + kScanGroups) * warpgroup::kThreads;
constexpr int kStoringWarps = 3;
constexpr int kProducerRegisters = 32;
constexpr int kFactorRegisters = 144;
constexpr int kScanRegisters = 168;
constexpr int kSlots = 3;

// Tokens are copied so many chunks before the rest.
template <int kValueTiles>
constexpr int kTokensAhead = kValueTiles == 1 ? 2 : 1;
template <int kValueTiles>
constexpr int kTokenStages = kSlots + kTokensAhead<kValueTiles>;
template <int kValueTiles>
constexpr int kScans = kScanGroups / kValueTiles;  // sequences at once

template <int kValueTiles>
struct Shared {
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
  Leaving leaving[kScanGroups];  // on their way to memory
  HalfMatrix matrices[2];        // in turn too
  alignas(16) warpgroup::Gates gates[kSlots];
  std::uint64_t has_tokens[kTokenStages<kValueTiles>];  // tokens of a chunk are there
  std::uint64_t has_gates[kSlots];                      // its gates are there and its slot is free
  std::uint64_t is_ready[kSlots];                       // V and factors are there
  std::uint64_t is_scanned[kSlots];                     // and all of it no longer needed
};

struct Maps {
  CUtensorMap q, k, v, o;
  CUtensorMap y, states;  // of DeltaRuleSaved, if something is kept
};

struct Args {
  DeltaRuleSizes sizes;
  Maps maps;
  const float* log_decay = nullptr;
  const float* beta = nullptr;
  DeltaRuleFactorData factors;
  const float* initial_state = nullptr;
  float* final_state = nullptr;  // may be null
  void* states = nullptr;        // DeltaRuleSaved::states
};

// A warp writes the 16x16 blocks of a tile that are not above the diagonal, by pieces of eight:
// those of rows `first`, `first` + `step`, ... among groups of four rows.
__device__ inline void CopyLower(Element* matrix, const Tile& tile, int first, int step) {
  const int column = device::LaneId() % 8 * 8;
  for (int i = first; i < kC / 4; i += step) {
    const int row = 4 * i + device::LaneId() / 8;
    if (column / 16 > i / 4) continue;
    *reinterpret_cast<uint4*>(matrix + row * kC + column) =
        *reinterpret_cast<const uint4*>(tile.x + warpgroup::Swizzled(row, column));
  }
}

// A warp's 16 columns of a chunk, transposed, to their place in a tile of tokens.
__device__ inline void StoreColumnsOfWarp(Tile& tile, const warpgroup::Operand::A (&c)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    warpgroup::StoreColumns(tile, 16 * i, 16 * warpgroup::WarpOfGroup(), c[i]);
  }
}

// A CTA at work. `warp`: of the warpgroup, known to be the same in all lanes.
template <int kValueTiles, bool kHasDecay>
class Block {
 public:
  __device__ Block(const Args& args, Shared<kValueTiles>& shared)
      : args_(args), shared_(shared), keeps_(args.factors.x != nullptr) {}

  // Before anything else, by all threads.
  __device__ void Begin() const {
    const int thread = static_cast<int>(threadIdx.x);
    if (thread == 0) {
      for (auto& barrier : shared_.has_tokens) device::InitBarrier(&barrier, 1);
      for (auto& barrier : shared_.has_gates) device::InitBarrier(&barrier, 32);
      for (auto& barrier : shared_.is_ready) device::InitBarrier(&barrier, warpgroup::kThreads);
      for (auto& barrier : shared_.is_scanned) {
        device::InitBarrier(&barrier,
                            kValueTiles * warpgroup::kThreads + (keeps_ ? 32 * kStoringWarps : 0));
      }
      device::ShowBarriersToCopies();
    }
    // What lies above the diagonal blocks of X and A is never written again.
    for (auto& slot : shared_.slots) {
      for (int i = thread; i < 2 * warpgroup::kTileElements / 8; i += kThreads) {
        reinterpret_cast<uint4*>(slot.x.x)[i] = {0, 0, 0, 0};
      }
    }
    for (auto& matrix : shared_.matrices) {
      for (int i = thread; i < static_cast<int>(sizeof(matrix.x) / sizeof(uint4)); i += kThreads) {
        reinterpret_cast<uint4*>(matrix.x)[i] = {0, 0, 0, 0};
      }
    }
    warpgroup::PublishToProducts();
    __syncthreads();
  }

  // One warp has tokens and V copied and forms the gates.
  __device__ void Produce() const {
    const bool is_first_lane = device::LaneId() == 0;
    Cursor ahead(args_.sizes, 0);
    TokensTurn ahead_turn;
    const auto copy_tokens = [&] {
      if (ahead.exists() && is_first_lane) {
        auto& tokens = shared_.tokens[ahead_turn.place];
        auto* const barrier = &shared_.has_tokens[ahead_turn.place];
        device::ExpectBytes(barrier, sizeof(tokens));
        const int head = ahead.head();
        const int batch = ahead.batch();
        CopyTokens(&tokens.k, args_.maps.k, 0, head, ahead.first_token(), batch, barrier);
        CopyTokens(&tokens.q, args_.maps.q, 0, head, ahead.first_token(), batch, barrier);
        device::Arrive(barrier);
      }
      ahead.NextOfBlock();
      ahead_turn = ahead_turn.After(1);
    };
    for (int i = 0; i < kTokensAhead<kValueTiles>; ++i) copy_tokens();
    Cursor at(args_.sizes, 0);
    SlotTurn slot_turn;
    LaneGates<kC> lane_gates;  // of the chunk that comes next
    const auto load_gates = [&] {
      const std::int64_t gate = at.gate();
      lane_gates.Load(kHasDecay ? args_.log_decay + gate : nullptr, args_.beta + gate,
                      args_.sizes.num_heads, at.num_valid());
    };
    load_gates();
#pragma unroll 1
    while (at.exists()) {
      auto& slot = shared_.slots[slot_turn.place];
      auto& gates = shared_.gates[slot_turn.place];
      // With the slot the place of the next tokens is free.
      device::WaitForPhase(&shared_.is_scanned[slot_turn.place], slot_turn.parity ^ 1);
      copy_tokens();
      if (is_first_lane) {
        auto* const barrier = &shared_.is_ready[slot_turn.place];
        device::ExpectBytes(barrier, sizeof(slot.v));
        const int head = at.head();
        const int batch = at.batch();
#pragma unroll
        for (int u = 0; u < kValueTiles; ++u) {
          CopyTokens(&slot.v[u], args_.maps.v, 64 * u, head, at.first_token(), batch, barrier);
        }
      }
      ComputeGates<kC>(gates, lane_gates);
      device::SyncWarp();
      device::Arrive(&shared_.has_gates[slot_turn.place]);
      if (keeps_) {
        float* const to = args_.factors.gates + at.chunk() * kNumGates * kC;
        for (int i = 4 * device::LaneId(); i < kNumGates * kC; i += 4 * 32) {
          *reinterpret_cast<float4*>(to + i) = *reinterpret_cast<const float4*>(&gates[0][0] + i);
        }
      }
      at.NextOfBlock();
      if (at.exists()) load_gates();
      slot_turn = slot_turn.After(1);
    }
  }

  // Warps `warp`, of kStoringWarps, write X and A for the backward pass.
  __device__ void StoreFactors(int warp) const {
    if (!keeps_) return;
    Cursor at(args_.sizes, 0);
    SlotTurn slot_turn;
#pragma unroll 1
    while (at.exists()) {
      const auto& slot = shared_.slots[slot_turn.place];
      const std::int64_t first = at.chunk() * kC * kC;
      device::WaitForPhase(&shared_.is_ready[slot_turn.place], slot_turn.parity);
      CopyLower(static_cast<Element*>(args_.factors.x) + first, slot.x, warp, kStoringWarps);
      CopyLower(static_cast<Element*>(args_.factors.a) + first, slot.a, warp, kStoringWarps);
      device::Arrive(&shared_.is_scanned[slot_turn.place]);
      at.NextOfBlock();
      slot_turn = slot_turn.After(1);
    }
  }

  // A warpgroup forms X and A of all chunks.
  __device__ void FormFactors(int warp) const {
    Cursor at(args_.sizes, 0);
    TokensTurn tokens_turn;
    SlotTurn slot_turn;
    Turn<2> matrix_turn;
#pragma unroll 1
    while (at.exists()) {
      const auto& tokens = shared_.tokens[tokens_turn.place];
      const auto& gates = shared_.gates[slot_turn.place];
      auto& slot = shared_.slots[slot_turn.place];
      auto& matrix = shared_.matrices[matrix_turn.place];
      const auto multiply = [&](Accumulators(&pairs)[4], const Tile& rows) {
        warpgroup::Fence();
        warpgroup::MultiplyTiles<Depth::kAlongRows, Depth::kAlongRows>(
            pairs, warpgroup::Descriptor(rows), warpgroup::Descriptor(tokens.k), false);
        warpgroup::Commit();
      };
      device::WaitForPhase(&shared_.has_tokens[tokens_turn.place], tokens_turn.parity);
      device::WaitForPhase(&shared_.has_gates[slot_turn.place], slot_turn.parity);
      Accumulators kk[4], qk[4];
      multiply(kk, tokens.k);
      multiply(qk, tokens.q);
      const PairFactors<kHasDecay> pair_factors(gates, args_.sizes.scale, warp);
      warpgroup::Wait<0>(kk, qk);
      StorePairs(kk, qk, pair_factors, warp, matrix, slot.a);
      device::SyncWarp();
      InvertDiagonal(matrix, warp);
      warpgroup::SyncGroup(0);
      InvertColumn(matrix, warp, [&](int i, const Accumulators& x) {
        warpgroup::StoreColumns(slot.x, 16 * i, 16 * warp, x);
      });
      warpgroup::PublishToProducts();
      device::Arrive(&shared_.is_ready[slot_turn.place]);
      at.NextOfBlock();
      tokens_turn = tokens_turn.After(1);
      slot_turn = slot_turn.After(1);
      matrix_turn = matrix_turn.After(1);
    }
  }

  // Each of kScanGroups warpgroups scans.
  __device__ void Scan(int scan_group, int warp) const {
    const int scan = kValueTiles == 1 ? scan_group : 0;
    const int value_tile = kValueTiles == 1 ? 0 : scan_group;
    const int column = value_tile * 64 + 16 * warp;  // first of this warp's columns of V
    const bool is_first_thread = threadIdx.x % warpgroup::kThreads == 0;
    auto& leaving = shared_.leaving[scan_group];
    Accumulators state[1][kDk / 16];  // S^T, 64 x K
    Cursor at(args_.sizes, scan);
    TokensTurn tokens_turn = TokensTurn().After(scan);
    SlotTurn slot_turn = SlotTurn().After(scan);
#pragma unroll 1
    while (at.exists()) {
      if (at.is_first()) {
        LoadState(state[0], StateColumn(args_.initial_state, args_.sizes, at.row(), column),
                  kHeadV);
        if (keeps_) {
          Element* const to =
              static_cast<Element*>(args_.states) + (at.chunk() * kHeadV + column) * kDk;
#pragma unroll
          for (int d = 0; d < kDk / 16; ++d) device::StoreRows(to + 16 * d, kDk, 16, state[0][d]);
        }
      }
      device::WaitForPhase(&shared_.has_tokens[tokens_turn.place], tokens_turn.parity);
      // The chunk before in this slot may be the other scan's. Until that has become ready, the
      // phase before it, of the parity of this one, looks as if it were this.
      device::WaitForPhase(&shared_.is_scanned[slot_turn.place], slot_turn.parity ^ 1);
      device::WaitForPhase(&shared_.is_ready[slot_turn.place], slot_turn.parity);
      const auto& tokens = shared_.tokens[tokens_turn.place];
      auto& slot = shared_.slots[slot_turn.place];
      auto& v = slot.v[value_tile];
      const int head = at.head();
      const int batch = at.batch();
      warpgroup::ScanForward<kDk, kHasDecay>(
          state, &tokens.q, &tokens.k, v, slot.x, slot.a, shared_.gates[slot_turn.place],
          args_.sizes.scale,
          [&](const warpgroup::Operand::A(&out)[4]) { StoreColumnsOfWarp(leaving.o, out); },
          [&](const warpgroup::Operand::A(&y)[4]) {
            // Y takes the place of V. After the barrier the other tiles have left too.
            if (keeps_) StoreColumnsOfWarp(v, y);
            if (is_first_thread) device::WaitForWrites<0>();
            warpgroup::PublishToProducts();
            warpgroup::SyncGroup(1 + scan_group);
            if (keeps_ && is_first_thread) {
              WriteTokens(args_.maps.y, 64 * value_tile, head, at.first_token(), batch, v);
              device::CommitWrites();
            }
          });
      const bool keeps_state = keeps_ && !at.is_last();
      if (keeps_state) {
#pragma unroll
        for (int d = 0; d < kDk / 16; ++d) {
          warpgroup::StoreRows(leaving.state, 16 * warp, 16 * d, state[0][d]);
        }
      }
      warpgroup::PublishToProducts();
      warpgroup::SyncGroup(1 + scan_group);
      if (is_first_thread) {
        WriteTokens(args_.maps.o, 64 * value_tile, head, at.first_token(), batch, leaving.o);
        if (keeps_state) {
          const auto next = static_cast<int>(at.chunk() + 1);
          WriteTokens(args_.maps.states, 0, 0, next * kHeadV + 64 * value_tile, 0, leaving.state);
        }
        device::CommitWrites();
        device::WaitForWrites<1>();  // Y has left the place of V
      }
      device::Arrive(&shared_.is_scanned[slot_turn.place]);
      if (at.is_last() && args_.final_state != nullptr) {
        StoreState(state[0], StateColumn(args_.final_state, args_.sizes, at.row(), column), kHeadV);
      }
      const int num_scans = at.num_scans();
      at.NextOfScan();
      tokens_turn = tokens_turn.After(num_scans);
      slot_turn = slot_turn.After(num_scans);
    }
    if (is_first_thread) device::WaitForWrites<0>();
  }

 private:
  static constexpr int kHeadV = 64 * kValueTiles;
  using Cursor = ChunkCursor<kScans<kValueTiles>>;
  using TokensTurn = Turn<kTokenStages<kValueTiles>>;
  using SlotTurn = Turn<kSlots>;

  const Args& args_;
  Shared<kValueTiles>& shared_;
  bool keeps_;  // for the backward pass
};

}  // namespace fused_forward
}  // namespace mixerbench::kernels::delta_rule
