// The three roles of the warpgroups of the fused backward kernel, and the shared memory through
// which they hand on a chunk. Maths: delta_rule.md.
//
//   queries  copies the next chunk to shared memory; dA, dq and, from P, dV
//   scan     P and the gradient G of the state
//   keys     dKK, M and dk, from P, G and dA; a chunk later the gradients of the gates
//
// Each role goes over all chunks of the block, and they meet at barriers in shared memory alone:
// the chain of products from chunk to chunk is the scan's, all else overlaps.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/linear_attention/delta_rule/delta_rule_chunk_sums.cuh"
#include "kernels/linear_attention/delta_rule/delta_rule_token_copies.cuh"
#include "kernels/linear_attention/delta_rule/delta_rule_wgmma_scan.cuh"

namespace mixerbench::kernels::delta_rule {

struct FusedBackwardArgs {
  CUtensorMap q_tiles, k_tiles, y_tiles, d_o_tiles, dq_tiles, dk_tiles;  // by MapTokens
  CUtensorMap state_tiles;                                               // as if [1,B H N V,1,K]
  DeltaRuleSizes sizes;
  Sequence v;
  DeltaRuleFactorData factors;
  const float* d_final_state;
  float* d_initial_state;
  DeltaRuleGradientData gradients;
};

// A chunk of a block: the sequences blockIdx.x, blockIdx.x + gridDim.x, ..., each from its last
// chunk to its first. Sizes fit 32 bits.
struct BackwardChunk {
  unsigned count;   // of chunks before
  int row;          // b H + h
  int batch, head;  // b, h
  int n;            // chunk of the sequence

  __device__ int first_token() const { return n * warpgroup::kC; }
};

// e^{b_i - b_j} of a warp's 16 tokens i and all tokens j of a chunk, of any value for j > i; all
// one without kHasDecay.
template <bool kHasDecay>
class BackwardDecays {
  static constexpr int kBlocks = warpgroup::kC / 16;

 public:
  __device__ BackwardDecays(const float (&b)[warpgroup::kC], int row_block) {
    if constexpr (kHasDecay) {
      float b_i[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) b_i[half] = b[row_block + device::BlockRow(2 * half)];
#pragma unroll
      for (int j = 0; j < kBlocks; ++j) {
#pragma unroll
        for (int e = 0; e < 8; ++e) {
          decays_[j][e] =
              device::Exp(b_i[e % 4 / 2] - b[16 * j + device::BlockColumn(e / 4, e % 4)]);
        }
      }
    }
  }
  // Element e of block j of accumulators.
  __device__ float operator()(int j, int e) const {
    if constexpr (kHasDecay) return decays_[j][e];
    return 1;
  }

 private:
  float decays_[kHasDecay ? kBlocks : 1][8];
};

// 64 kValueTiles = V.
template <int kValueTiles, bool kHasDecay>
class FusedBackward {
  using Element = warpgroup::Element;
  using Tile = warpgroup::Tile;
  using Depth = warpgroup::Depth;
  using Chunk = BackwardChunk;
  using Decays = BackwardDecays<kHasDecay>;
  static constexpr int kC = warpgroup::kC;
  static constexpr int kDk = 64;
  static constexpr int kHeadV = 64 * kValueTiles;
  static constexpr int kThreads = warpgroup::kThreads;
  static constexpr auto kRows = Depth::kAlongRows;
  static constexpr auto kColumns = Depth::kDownColumns;
  static constexpr int kBlocks = 4;  // of 16 columns
  static constexpr int kStages = 2;
  static constexpr int kScannedStages = kValueTiles == 1 ? 2 : 1;
  static constexpr int kGateStages = 4;  // the gradients of gates are a chunk behind
  // Eight neighbouring lanes share a token of V.
  static constexpr int kTokensPerStep = kThreads / 8;
  using ValueRows = Vector<Element>[kC / kTokensPerStep][kValueTiles];

 public:
  struct Shared {
    struct Stage {  // of chunk c: c % kStages
      Tile q, k;
      Tile a;  // then K', beta K as it is rounded
      Tile x;  // then dKK
      Tile d_o[kValueTiles], y[kValueTiles], state[kValueTiles];
    };
    struct Scanned {  // c % kScannedStages
      Tile p[kValueTiles], d_state[kValueTiles];
    };
    Stage stages[kStages];
    Scanned scanned[kScannedStages];
    Tile d_a[kStages];  // then dk
    Tile dq;
    alignas(16) warpgroup::Gates gates[kGateStages];
    ChunkSums<kC, 2, 1, kThreads / 32> sums[kGateStages];
    std::uint64_t is_loaded[kStages];
    std::uint64_t is_scanned[kScannedStages];  // P and G are there
    std::uint64_t is_taken[kScannedStages];    // and no longer needed
    std::uint64_t is_paired[kStages];          // dA is there
    std::uint64_t is_done[kStages];            // by scan and keys
  };

  static constexpr int kGroups = 3;
  // Registers of a thread by its role: the scan has all of G. 0: an equal part for each.
  static constexpr int kQueryRegisters = kValueTiles == 2 ? 152 : 0;
  static constexpr int kKeyRegisters = kValueTiles == 2 ? 152 : 0;
  static constexpr int kScanRegisters = kValueTiles == 2 ? 200 : 0;

  __device__ FusedBackward(const FusedBackwardArgs& args, Shared& shared)
      : args_(args),
        shared_(shared),
        seq_len_(static_cast<int>(args.sizes.seq_len)),
        num_heads_(static_cast<int>(args.sizes.num_heads)),
        num_rows_(static_cast<int>(args.sizes.batch_size) * num_heads_),
        last_((seq_len_ + kC - 1) / kC - 1) {}

  // One thread.
  __device__ void InitBarriers() {
    for (auto& barrier : shared_.is_loaded) device::InitBarrier(&barrier, kThreads);
    for (auto& barrier : shared_.is_scanned) device::InitBarrier(&barrier, kThreads);
    for (auto& barrier : shared_.is_taken) device::InitBarrier(&barrier, 2 * kThreads);
    for (auto& barrier : shared_.is_paired) device::InitBarrier(&barrier, kThreads);
    for (auto& barrier : shared_.is_done) device::InitBarrier(&barrier, 2 * kThreads);
    device::ShowBarriersToCopies();
  }

  // The roles, a warpgroup each; queries by the first of the block.
  __device__ void Queries();
  __device__ void Keys();
  __device__ void Scan();

 private:
  __device__ Chunk First() const {
    Chunk chunk = {.count = 0, .row = static_cast<int>(blockIdx.x), .n = last_};
    SplitRow(chunk);
    return chunk;
  }
  __device__ bool Exists(const Chunk& chunk) const { return chunk.row < num_rows_; }
  __device__ Chunk After(Chunk chunk) const {
    ++chunk.count;
    if (chunk.n-- == 0) {
      chunk.n = last_;
      chunk.row += static_cast<int>(gridDim.x);
      SplitRow(chunk);
    }
    return chunk;
  }
  __device__ void SplitRow(Chunk& chunk) const {
    chunk.batch = chunk.row / num_heads_;
    chunk.head = chunk.row - chunk.batch * num_heads_;
  }
  __device__ int NumValid(const Chunk& chunk) const {
    return min(kC, seq_len_ - chunk.first_token());
  }
  __device__ Element* TokenRows(const Sequence& x, const Chunk& chunk) const {
    return static_cast<Element*>(x.data) + chunk.batch * x.batch_stride +
           chunk.head * x.head_stride + chunk.first_token() * x.token_stride;
  }

  // Until the barrier of chunk c, one of kCount in turn, has seen it.
  template <int kCount>
  static __device__ void Wait(std::uint64_t (&barriers)[kCount], unsigned c) {
    device::WaitForPhase(&barriers[c % kCount], static_cast<int>(c / kCount % 2));
  }
  __device__ int RowBlock() const { return 16 * warpgroup::WarpOfGroup(); }

  // sums [64,64] = the sum over tiles of V of a times b; one group of products.
  template <Depth kDepthA, Depth kDepthB>
  static __device__ void MultiplyValues(Accumulators (&sums)[kBlocks], const Tile (&a)[kValueTiles],
                                        const Tile (&b)[kValueTiles]) {
#pragma unroll
    for (int u = 0; u < kValueTiles; ++u) {
      warpgroup::MultiplyTiles<kDepthA, kDepthB>(sums, warpgroup::Descriptor(a[u]),
                                                 warpgroup::Descriptor(b[u]), u > 0);
    }
    warpgroup::Commit();
  }

  // What one role copied or wrote is seen by this one's products, too.
  __device__ void WaitForLoads(unsigned c) {
    Wait(shared_.is_loaded, c);
    warpgroup::PublishToProducts();
  }

  // This warpgroup's rows [64,64] go to x by way of a tile that no other warp reads any more.
  __device__ void WriteRows(int group, const Accumulators (&rows)[kBlocks], Tile& tile,
                            const CUtensorMap& x, const Chunk& chunk) const {
#pragma unroll
    for (int d = 0; d < kBlocks; ++d) warpgroup::StoreRows(tile, RowBlock(), 16 * d, rows[d]);
    warpgroup::PublishToProducts();
    warpgroup::SyncGroup(group);
    if (IsFirstOfGroup()) {
      WriteTokens(x, 0, chunk.head, chunk.first_token(), chunk.batch, tile);
      device::CommitWrites();
    }
  }
  // Until the tile may be written again, for those that meet this thread afterwards.
  __device__ void WaitForRows() const {
    if (IsFirstOfGroup()) device::WaitForWrites<0>();
  }
  __device__ bool IsFirstOfGroup() const { return threadIdx.x % kThreads == 0; }

  __device__ void StorePairs(Accumulators (&pairs)[kBlocks], const Decays& decays,
                             Tile& tile) const;
  __device__ void Load(const Chunk& chunk);
  __device__ void FormQueryGradients(const Chunk& chunk, float (&db)[2]);
  __device__ void LoadValues(const Chunk& chunk, ValueRows& values) const;
  __device__ void FormValueGradients(const Chunk& chunk, const ValueRows& values, float (&pv)[kC]);
  __device__ float Product(const Accumulators (&rows)[kBlocks], const Tile& tile) const;
  __device__ void FinishGates(const Chunk& chunk);
  __device__ void FormKeyGradients(const Chunk& chunk);

  const FusedBackwardArgs& args_;
  Shared& shared_;
  const int seq_len_, num_heads_, num_rows_;
  const int last_;  // chunk of a sequence
};

// Products of this warp's tokens with all tokens become s D times themselves on and below the
// diagonal and zero above, and go to a tile.
template <int kValueTiles, bool kHasDecay>
__device__ void FusedBackward<kValueTiles, kHasDecay>::StorePairs(Accumulators (&pairs)[kBlocks],
                                                                  const Decays& decays,
                                                                  Tile& tile) const {
  const float scale = args_.sizes.scale;
#pragma unroll
  for (int j = 0; j < kBlocks; ++j) {
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int column = 16 * j + device::BlockColumn(e / 4, e % 4);
      float& pair = pairs[j][e / 4][e % 4];
      pair = column <= RowBlock() + device::BlockRow(e % 4) ? pair * (scale * decays(j, e)) : 0.f;
    }
    warpgroup::StoreRows(tile, RowBlock(), 16 * j, pairs[j]);
  }
}

}  // namespace mixerbench::kernels::delta_rule
