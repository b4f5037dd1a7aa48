// The warpgroups of a scan in chunks that load them and form their scores.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/device/log_decay.cuh"
#include "kernels/linear_attention/scan/wgmma_scan_params.cuh"

namespace mixerbench::kernels::decay_scan {

// Prepares chunks first, first + kWgmmaScanProducers, ... of those that the CTA scans.
template <int kKeys, WgmmaScanKind kKind>
struct WgmmaScanProducer {
  using Element = warpgroup::Element;
  using SlotType = ChunkSlot<kKeys>;
  static constexpr bool kReads = kKind != WgmmaScanKind::kSum;
  // The next copies start before a chunk is prepared where slots suffice: not to wait for the scan
  // over the chunk before it.
  static constexpr bool kCopiesEarly = kKeys == 64 || !HasFactor(kKind);

  const ScanParams& p;
  const WgmmaScanLayout& layout;
  char* memory;
  int first;
  int warp = warpgroup::WarpOfGroup();
  int lane = LaneId();
  float* sums;         // of binary logarithms of decays, up to each token; every warp has its own
  ChunkStream copied;  // the next copies
  RingCursor copied_slot;  // and their slot

  __device__ WgmmaScanProducer(const ScanParams& params, const WgmmaScanLayout& scan_layout,
                               char* shared_memory, int index)
      : p(params),
        layout(scan_layout),
        memory(shared_memory),
        first(index),
        sums(reinterpret_cast<float*>(memory + layout.scratch) + (4 * index + warp) * kChunkTokens),
        copied(params, index),
        copied_slot{.slot = index, .parity = 1} {}

  __device__ void Run(const SlotBarriers& barriers) {
    for (int ahead = 0; ahead < p.lookahead; ++ahead) StartCopies(barriers);
    RingCursor slot = {.slot = first};
    for (ChunkStream prepared(p, first); !prepared.HasEnded();
         prepared.Advance(kWgmmaScanProducers)) {
      WaitForOldestCopies();
      warpgroup::PublishToProducts();
      warpgroup::SyncThreads(1 + first, warpgroup::kThreads);
      if (kCopiesEarly) StartCopies(barriers);
      Prepare(SlotType(memory, layout, slot.slot));
      warpgroup::PublishToProducts();
      Arrive(barriers.ready + slot.slot);
      slot.Advance(kWgmmaScanProducers, p.num_slots);
      if (!kCopiesEarly) StartCopies(barriers);
    }
  }

  // One group of copies, for this producer's next chunk; empty past the last one. In the first
  // round slots are free: a barrier that was never used has ended the phase before.
  __device__ void StartCopies(const SlotBarriers& barriers) {
    if (!copied.HasEnded()) {
      WaitForPhase(barriers.free + copied_slot.slot, copied_slot.parity);
      const SlotType slot(memory, layout, copied_slot.slot);
      copied_slot.Advance(kWgmmaScanProducers, p.num_slots);
      const ChunkPosition& at = copied.at;
      const int token = at.ChunkBegin(p, copied.n);
      if (kReads) Copy<SlotType::kKeyTiles>(slot.x, p.x, token, 0, p.key_dim);
      Copy<SlotType::kKeyTiles>(slot.y, p.y, token, 0, p.key_dim);
      Copy<1>(slot.z, p.z, token, at.value_begin, p.value_dim);
      if (HasFactor(kKind)) Copy<1>(slot.factor, p.factor, token, at.value_begin, p.value_dim);
      const int row = static_cast<int>(threadIdx.x) % warpgroup::kThreads;
      if (p.log_decay.data != nullptr && row < kChunkTokens) {
        const bool valid = token + row < p.seq_len;
        CopyAsync4(slot.tokens->gates + row,
                   TokenRow<const float>(p.log_decay, at, valid ? token + row : 0), valid);
      }
      copied.Advance(kWgmmaScanProducers);
    }
    CommitCopies();
  }

  // 64 rows of up to 64 kTiles channels to tiles, by the threads of this warpgroup. What the source
  // does not have becomes zeros.
  template <int kTiles>
  __device__ void Copy(warpgroup::Tile* tiles, const Sequence& source, int token, int first_channel,
                       int num_channels) const {
    const int thread = static_cast<int>(threadIdx.x) % warpgroup::kThreads;
    const int row = thread / 8;
    const int channel = thread % 8 * 8;
    const int to = warpgroup::Swizzled(row, channel);
    const Element* const first_row = TokenRow<Element>(source, copied.at, token + row);
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const int from = first_channel + 64 * tile + channel;
      const bool exists = from < num_channels;
#pragma unroll
      for (int step = 0; step < kChunkTokens; step += 16) {
        CopyAsync16(tiles[tile].x + to + step * warpgroup::kTileColumns,
                    first_row + step * source.token_stride + (exists ? from : first_channel),
                    exists && token + row + step < p.seq_len);
      }
    }
  }

  // The instruction takes a constant.
  __device__ void WaitForOldestCopies() const {
    if (p.lookahead == 1) {
      WaitForCopies<0>();
    } else if (p.lookahead == 2) {
      WaitForCopies<1>();
    } else {
      WaitForCopies<2>();
    }
  }

  __device__ void Prepare(const SlotType& slot) {
    using warpgroup::Depth;
    warpgroup::Sums scores;
    if (kReads) {
      warpgroup::Fence();
#pragma unroll
      for (int k = 0; k < SlotType::kKeyTiles; ++k) {
        warpgroup::MultiplyTiles<Depth::kAlongRows, Depth::kAlongRows>(
            scores, warpgroup::Descriptor(slot.x[k]), warpgroup::Descriptor(slot.y[k]), k > 0);
      }
      warpgroup::Commit();
    }
    SumDecays(*slot.tokens);
    if (!kReads) return;
    warpgroup::Wait<0>(scores);
    const float mine[2] = {sums[16 * warp + BlockRow(0)], sums[16 * warp + BlockRow(2)]};
    // Blocks that are hidden from this warp's tokens are zeros from the beginning.
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      if (p.reverse ? n < warp : n > warp) continue;
      DecayScores(scores[n], 16 * n, mine);
      if (n == warp) HideScores(scores[n]);
      warpgroup::StoreRows(*slot.scores, 16 * warp, 16 * n, scores[n]);
    }
  }

  // Lane l has tokens 2 l and 2 l + 1 of the chunk.
  __device__ void SumDecays(ChunkTokens& tokens) {
    float2 gates = {0, 0};
    if (p.log_decay.data != nullptr) gates = reinterpret_cast<const float2*>(tokens.gates)[lane];
    gates.x = kLog2E * BoundedLogDecay(gates.x);
    gates.y = kLog2E * BoundedLogDecay(gates.y);
    float scan = gates.x + gates.y;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const float before = ShuffleUp(scan, step);
      if (lane >= step) scan += before;
    }
    const float before = ShuffleUp(scan, 1);
    const float b[2] = {(lane == 0 ? 0 : before) + gates.x, scan};
    const float total = ShuffleFrom(scan, 31);
    reinterpret_cast<float2*>(sums)[lane] = {b[0], b[1]};
    SyncWarp();
    if (warp != 0) return;
    if (lane == 0) tokens.decay = Exp2(total), tokens.log2_decay = total;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float from_begin = Exp2(b[i]);
      const float to_end = Exp2(total - b[i]);
      tokens.x_factors[2 * lane + i] = p.scale * (p.reverse ? to_end : from_begin);
      tokens.y_factors[2 * lane + i] = p.reverse ? from_begin : to_end;
    }
  }

  // Scores of this warp's tokens, whose sums of decays are `mine`, with tokens `column`.. of the
  // chunk.
  __device__ void DecayScores(Accumulators& scores, int column, const float (&mine)[2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float2 theirs = *reinterpret_cast<const float2*>(sums + column + BlockColumn(half, 0));
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float difference = mine[e / 2] - (e % 2 == 0 ? theirs.x : theirs.y);
        scores[half][e] *= p.scale * Exp2(p.reverse ? -difference : difference);
      }
    }
  }

  // Zeros for pairs of the block on the diagonal that are not visible; their decays may be
  // infinite.
  __device__ void HideScores(Accumulators& scores) const {
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      float& score = scores[e / 4][e % 4];
      if (!IsVisible(BlockRow(e % 4), BlockColumn(e / 4, e % 4), p.reverse)) score = 0;
    }
  }
};

}  // namespace mixerbench::kernels::decay_scan
