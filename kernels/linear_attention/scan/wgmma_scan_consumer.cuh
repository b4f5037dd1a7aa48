// The warpgroup of a scan in chunks that holds the state.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/linear_attention/scan/wgmma_scan_params.cuh"

namespace mixerbench::kernels::decay_scan {

// Owns the state [64 channels of `out`][kKeys]; a warp has 16 of the channels.
template <int kKeys, WgmmaScanKind kKind>
struct WgmmaScanConsumer {
  using Element = warpgroup::Element;
  using Operand = warpgroup::Operand;
  using Fragment = Operand::A;
  using Sums = warpgroup::Sums;
  using SlotType = ChunkSlot<kKeys>;
  static constexpr int kKeyTiles = kKeys / 64;
  static constexpr bool kReads = kKind != WgmmaScanKind::kSum;

  const ScanParams& p;
  const WgmmaScanLayout& layout;
  ChunkPosition at;
  int tile_channel = 16 * warpgroup::WarpOfGroup();  // of this warp's first channel in the tile
  int t = LaneId() % 4;
  Sums state[kKeyTiles];
  Fragment rounded[kKeyTiles][4];  // the state as an operand
  // kCompare: this lane's part of state_products of the chunk, of channels g and g + 8.
  float boundary[2];

  __device__ WgmmaScanConsumer(const ScanParams& params, const WgmmaScanLayout& scan_layout)
      : p(params), layout(scan_layout), at(params, static_cast<int>(blockIdx.x)) {}

  __device__ int Channel(int half) const {
    return at.value_begin + tile_channel + LaneId() / 4 + 8 * half;
  }

  __device__ void Run(const SlotBarriers& barriers, char* memory) {
    RingCursor cursor;
    for (int index = static_cast<int>(blockIdx.x); index < NumPositions(p);
         index += static_cast<int>(gridDim.x)) {
      at = ChunkPosition(p, index);
      LoadState();
      float log2_decay = 0;
      for (int n = 0; n < at.num_chunks; ++n) {
        const int token = at.ChunkBegin(p, n);
        if (kKind == WgmmaScanKind::kCompare) CompareState(token / kScanChunk);
        WaitForPhase(barriers.ready + cursor.slot, cursor.parity);
        const SlotType slot(memory, layout, cursor.slot);
        if (!kReads) log2_decay += slot.tokens->log2_decay;
        ScanChunk(slot, token);
        if (kKind == WgmmaScanKind::kCompare) StoreStateProducts(token / kScanChunk);
        Arrive(barriers.free + cursor.slot);
        cursor.Advance(1, p.num_slots);
        RoundState();
        if (kKind == WgmmaScanKind::kSave) SaveState(token / kScanChunk);
      }
      StoreState();
      if (!kReads && threadIdx.x == 0 && at.value_begin == 0) {
        p.segment_decays[static_cast<std::int64_t>(at.segment) * p.num_sequences + at.sequence] =
            log2_decay / kLog2E;
      }
    }
  }

  // --- states in memory

  template <typename Visit>
  __device__ void ForEachState(const StatePlace& place, const Visit& visit) {
    float* base = place.data + at.segment * place.segment_stride +
                  static_cast<std::int64_t>(at.sequence) * place.sequence_stride;
#pragma unroll
    for (int i = 0; i < 32 * kKeyTiles; ++i) {
      const int block = i / 8;
      const int e = i % 8;
      const int m = Channel(e / 2 % 2);
      const int n = 16 * block + BlockColumn(e / 4, e % 4);
      if (m < p.value_dim && n < p.key_dim) {
        visit(state[block / 4][block % 4][e / 4][e % 4],
              base[m * place.value_stride + n * place.key_stride]);
      }
    }
  }

  __device__ void LoadState() {
#pragma unroll
    for (int k = 0; k < kKeyTiles; ++k) Clear(state[k]);
    if (p.initial_state.data != nullptr) {
      const float scale = p.state_in_scale;
      ForEachState(p.initial_state,
                   [scale](float& mine, const float& theirs) { mine = scale * theirs; });
    }
    RoundState();
  }

  __device__ void StoreState() {
    if (p.final_state.data == nullptr) return;
    const int last = p.reverse ? 0 : p.num_segments - 1;
    if (at.segment != last && !p.final_state_of_all) return;
    const float scale = p.state_out_scale;
    ForEachState(p.final_state,
                 [scale](const float& mine, float& theirs) { theirs = scale * mine; });
  }

  __device__ void RoundState() {
#pragma unroll
    for (int k = 0; k < kKeyTiles; ++k) {
#pragma unroll
      for (int n = 0; n < 4; ++n) rounded[k][n] = ToOperand<Operand>(state[k][n]);
    }
  }

  // Fragments of a saved state, 16 adjacent bytes a lane, as ScanProblem has them.
  __device__ std::int64_t SavedIndex(int chunk) const {
    const int num_groups = (p.value_dim + 15) / 16;
    const int group = (at.value_begin + tile_channel) / 16;
    const std::int64_t sequence = static_cast<std::int64_t>(chunk) * p.num_sequences + at.sequence;
    return (sequence * num_groups + group) * 4 * kKeyTiles * 32 + LaneId();
  }

  __device__ bool HasChannels() const { return at.value_begin + tile_channel < p.value_dim; }

  __device__ void SaveState(int chunk) {
    if (!HasChannels()) return;
    auto* saved = static_cast<Fragment*>(p.states_to_save) + SavedIndex(chunk);
#pragma unroll
    for (int k = 0; k < 4 * kKeyTiles; ++k) saved[32 * k] = rounded[k / 4][k % 4];
  }

  // The product of the state, the gradient after the chunk, and of the one that the other scan had
  // before it, over keys, both rounded as they are multiplied with tokens: decay_scan.md says why.
  __device__ void CompareState(int chunk) {
    boundary[0] = boundary[1] = 0;
    if (!HasChannels()) return;
    if (chunk == 0) {
      AddFirstState();
      return;
    }
    const auto* saved = static_cast<const Fragment*>(p.states_to_compare) + SavedIndex(chunk - 1);
#pragma unroll
    for (int k = 0; k < 4 * kKeyTiles; ++k) {
      const Fragment other = saved[32 * k];
#pragma unroll
      for (int r = 0; r < 4; ++r) AddProduct(rounded[k / 4][k % 4].r[r], other.r[r], r % 2);
    }
    if (chunk == 1) return;
    const auto* next = static_cast<const Fragment*>(p.states_to_compare) + SavedIndex(chunk - 2);
#pragma unroll
    for (int k = 0; k < 4 * kKeyTiles; ++k) PrefetchToL2(next + 32 * k);
  }

  __device__ void AddFirstState() {
    if (p.first_state.data == nullptr) return;
    const float* base =
        p.first_state.data + static_cast<std::int64_t>(at.sequence) * p.first_state.sequence_stride;
#pragma unroll
    for (int i = 0; i < 16 * kKeyTiles; ++i) {
      const int half = i % 2;
      const int m = Channel(half);
      const int n = 16 * (i / 4) + 8 * (i / 2 % 2) + 2 * t;
      if (m >= p.value_dim || n >= p.key_dim) continue;
      const float* place = base + m * p.first_state.value_stride + n * p.first_state.key_stride;
      AddProduct(rounded[i / 16][i / 4 % 4].r[i % 4],
                 PackBf16(place[0], place[p.first_state.key_stride]), half);
    }
  }

  __device__ void AddProduct(std::uint32_t a, std::uint32_t b, int half) {
    boundary[half] += LowBf16(a) * LowBf16(b) + HighBf16(a) * HighBf16(b);
  }

  __device__ void StoreStateProducts(int chunk) const {
    if (!HasChannels()) return;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = boundary[half];
      sum += ShuffleXor(sum, 1);
      sum += ShuffleXor(sum, 2);
      if (t == 0 && Channel(half) < p.value_dim) {
        const std::int64_t sequence =
            static_cast<std::int64_t>(chunk) * p.num_sequences + at.sequence;
        p.state_products[sequence * p.value_dim + Channel(half)] = sum;
      }
    }
  }

  // --- one chunk

  // Products run while registers that they do not touch are made ready for the next ones.
  __device__ void ScanChunk(const SlotType& slot, int token) {
    using warpgroup::Depth;
    Sums out, visible;
    if (kReads) {
      warpgroup::Fence();
#pragma unroll
      for (int k = 0; k < kKeyTiles; ++k) {
        warpgroup::MultiplyTiles<Depth::kAlongRows>(out, rounded[k],
                                                    warpgroup::Descriptor(slot.x[k]), k > 0);
      }
    }
    Fragment z[4];
#pragma unroll
    for (int s = 0; s < 4; ++s) z[s] = warpgroup::LoadATransposed(*slot.z, 16 * s, tile_channel);
    if (kReads) {
      warpgroup::Fence();
      warpgroup::MultiplyTiles<Depth::kAlongRows>(visible, z, warpgroup::Descriptor(*slot.scores),
                                                  false);
      warpgroup::Commit();
    }

    if (p.log_decay.data != nullptr) {
      const float decay = slot.tokens->decay;
#pragma unroll
      for (int i = 0; i < 32 * kKeyTiles; ++i) state[i / 32][i / 8 % 4][i / 4 % 2][i % 4] *= decay;
    }
    Fragment written[4];
#pragma unroll
    for (int s = 0; s < 4; ++s) written[s] = Scaled(z[s], slot.tokens->y_factors + 16 * s);
    warpgroup::Fence();
#pragma unroll
    for (int k = 0; k < kKeyTiles; ++k) {
      warpgroup::MultiplyTiles<Depth::kDownColumns>(state[k], written,
                                                    warpgroup::Descriptor(slot.y[k]), true);
    }
    warpgroup::Commit();

    if (kReads) {
      warpgroup::Wait<1>(out, visible);
      SyncWarp();  // `out` takes the place of z
      if (kKind == WgmmaScanKind::kCompare) {
        const float scale = p.state_out_scale * slot.tokens->decay;
        boundary[0] *= scale, boundary[1] *= scale;
      }
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        Fragment factors = {};  // of `out`
        if (kKind == WgmmaScanKind::kCompare) {
          factors = warpgroup::LoadATransposed(*slot.factor, 16 * n, tile_channel);
        }
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const float2 x_factor =
              *reinterpret_cast<const float2*>(slot.tokens->x_factors + 16 * n + 8 * h + 2 * t);
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const float read = (e % 2 == 0 ? x_factor.x : x_factor.y) * out[n][h][e];
            if (kKind == WgmmaScanKind::kCompare) {
              const std::uint32_t pair = factors.r[2 * h + e / 2];
              boundary[e / 2] += read * (e % 2 == 0 ? LowBf16(pair) : HighBf16(pair));
            }
            out[n][h][e] = visible[n][h][e] + read;
          }
        }
        warpgroup::StoreColumns(*slot.z, 16 * n, tile_channel, out[n]);
      }
      if (HasFactor(kKind)) StoreTokenProducts(out, *slot.factor, token);
      SyncWarp();
      CopyOut(*slot.z, token);
    }
    Wait();
  }

  // For the products with the state.
  __device__ void Wait() {
    if constexpr (kKeyTiles == 1) {
      warpgroup::Wait<0>(state[0]);
    } else {
      warpgroup::Wait<0>(state[0], state[1]);
    }
  }

  // Columns of an operand times their factors.
  __device__ Fragment Scaled(const Fragment& a, const float* factors) const {
    Fragment result;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float2 factor = *reinterpret_cast<const float2*>(factors + 8 * half + 2 * t);
#pragma unroll
      for (int r = 2 * half; r < 2 * half + 2; ++r) {
        result.r[r] = PackBf16(LowBf16(a.r[r]) * factor.x, HighBf16(a.r[r]) * factor.y);
      }
    }
    return result;
  }

  // This warp's channels, 32 bytes a token.
  __device__ void CopyOut(const warpgroup::Tile& tile, int token) const {
    const int channel = tile_channel + LaneId() % 2 * 8;
    if (at.value_begin + channel >= p.value_dim) return;
    Element* out = TokenRow<Element>(p.out, at, token) + at.value_begin + channel;
#pragma unroll
    for (int i = 0; i < kChunkTokens; i += 16) {
      const int row = i + LaneId() / 2;
      if (token + row < p.seq_len) {
        *reinterpret_cast<uint4*>(out + row * p.out.token_stride) =
            *reinterpret_cast<const uint4*>(tile.x + warpgroup::Swizzled(row, channel));
      }
    }
  }

  // The products of `out` and its factor, summed over this warp's channels.
  __device__ void StoreTokenProducts(const Sums& out, const warpgroup::Tile& tile,
                                     int token) const {
    float sums[16];  // of tokens 16 (i / 4) + 8 (i / 2 % 2) + 2 t + i % 2
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      const Fragment factor = warpgroup::LoadATransposed(tile, 16 * s, tile_channel);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        sums[4 * s + 2 * h] =
            out[s][h][0] * LowBf16(factor.r[2 * h]) + out[s][h][2] * LowBf16(factor.r[2 * h + 1]);
        sums[4 * s + 2 * h + 1] =
            out[s][h][1] * HighBf16(factor.r[2 * h]) + out[s][h][3] * HighBf16(factor.r[2 * h + 1]);
      }
    }
    // Over lanes with other channels: half of the sums go to either half of the lanes at each step.
    const int g = LaneId() / 4;
#pragma unroll
    for (int step = 0; step < 3; ++step) {
      const int width = 8 >> step;
      const bool upper = (g >> step & 1) != 0;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        if (i >= width) continue;
        const float mine = upper ? sums[i + width] : sums[i];
        const float other = upper ? sums[i] : sums[i + width];
        sums[i] = mine + ShuffleXor(other, 4 << step);
      }
    }
    const int block = token / kBlockTokens + 2 * (g & 1) + (g >> 1 & 1);
    if (!HasChannels() || block * kBlockTokens >= p.seq_len) return;
    const int num_sums = (p.value_dim + 15) / 16;
    const std::int64_t row =
        (static_cast<std::int64_t>(block) * p.num_sequences + at.sequence) * num_sums +
        (at.value_begin + tile_channel) / 16;
    *reinterpret_cast<float2*>(p.token_products + row * kBlockTokens + 8 * (g >> 2) + 2 * t) = {
        sums[0], sums[1]};
  }
};

}  // namespace mixerbench::kernels::decay_scan
