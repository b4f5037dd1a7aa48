// Shared memory of the backward kernel of short sequences, and how it is filled.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/attention/softmax_attention/attention_tiles.cuh"
#include "kernels/attention/softmax_attention/softmax_attention_plan.h"

namespace mixerbench::kernels::softmax_attention {

// All of one (b, h) in shared memory: q, k, v, dO, log denominators and delta of kTokens tokens,
// and dl^T of every pair of tiles that see each other.
template <int kHeadDim, int kNumWarps, int kNumBlocks>
struct Whole {
  static constexpr int kD = kHeadDim;
  static constexpr int kWarps = kNumWarps;
  static constexpr int kBlocks = kNumBlocks;  // of 16 keys and queries, of each warp
  static constexpr int kTokens = kWarps * kBlocks * 16;
  static constexpr int kTiles = kTokens / kTile;
  static constexpr int kRow = device::PaddedRow(kD);
  static constexpr int kMatrix = kTokens * kRow;
  static constexpr int kPairs = kTiles * (kTiles + 1) / 2;
  static constexpr std::int64_t kBytes = (4 * kMatrix + kPairs * kTile * kTile) * sizeof(Element) +
                                         2 * kTokens * sizeof(float) +
                                         kTiles * sizeof(std::uint64_t);
  static_assert(kBytes == WholeBackwardBytes(kTokens, kD));
  // As many as shared memory holds and registers allow without spills.
  static constexpr int kBlocksPerMultiprocessor = kBytes > 113 * 1024
                                                      ? 1
                                                      : (kD >= 128 ? 8 : 16) / kWarps;

  Element *q, *k, *v, *d_o;
  Element* d_scores;  // [pair of tiles][key][query], see DScores
  float *log_denominators, *deltas;
  std::uint64_t* arrived;  // a barrier for each tile

  __device__ explicit Whole(void* shared)
      : q(static_cast<Element*>(shared)),
        k(q + kMatrix),
        v(k + kMatrix),
        d_o(v + kMatrix),
        d_scores(d_o + kMatrix),
        log_denominators(reinterpret_cast<float*>(d_scores + kPairs * kTile * kTile)),
        deltas(log_denominators + kTokens),
        arrived(reinterpret_cast<std::uint64_t*>(deltas + kTokens)) {}

  // Blocks w and 2 kWarps - 1 - w: the warps' work is equal, as early blocks of keys have many
  // queries.
  __device__ static int OwnBlock(int n) {
    return n == 0 ? device::WarpId() : 2 * kWarps - 1 - device::WarpId();
  }
  __device__ static int OfBlock(int block) { return block * 16 * kRow; }

  // dl^T for key `row` of a block of keys and eight queries from 16 query_block + 8 half on. Rows
  // of 64 queries are not padded: their vectors of eight are permuted instead.
  __device__ Element* DScores(int key_block, int row, int query_block, int half) const {
    const int query_tile = query_block / 4;
    const int pair = query_tile * (query_tile + 1) / 2 + key_block / 4;
    const int vector = (query_block % 4 * 2 + half) ^ (row % 8);
    return d_scores + (pair * kTile + key_block % 4 * 16 + row) * kTile + vector * 8;
  }
};

// Starts all copies; a tile's barrier opens when its q, k, v, dO, log denominators and deltas are
// there: delta_i = <dO_i, o_i>, with dropout over its scale c, as dl = P (c m dP - delta) with
// m = 0 or 1.
template <typename W, bool kDrops>
__device__ void LoadTiles(const W& w, const AttentionProblem& p, const Head& head) {
  constexpr int kNumThreads = W::kWarps * 32;
  const int thread = static_cast<int>(threadIdx.x);
  const auto num_tiles = static_cast<int>(NumTiles(p));
  if (thread < W::kTiles) device::InitBarrier(w.arrived + thread, 2 * kNumThreads);
  __syncthreads();
  const Rows q(p.q, head), k(p.k, head), v(p.v, head), d_o(p.d_o, head), o(p.o, head);
#pragma unroll 1
  for (int tile = 0; tile < num_tiles; ++tile) {
    const int offset = W::OfBlock(tile * 4);
    CopyTile<W::kD, kNumThreads>(w.q + offset, q, tile * kTile, p.seq_len);
    CopyTile<W::kD, kNumThreads>(w.k + offset, k, tile * kTile, p.seq_len);
    CopyTile<W::kD, kNumThreads>(w.v + offset, v, tile * kTile, p.seq_len);
    CopyTile<W::kD, kNumThreads>(w.d_o + offset, d_o, tile * kTile, p.seq_len);
    if (thread < kTile) {
      const int token = tile * kTile + thread;
      const bool valid = token < p.seq_len;
      device::CopyAsync4(w.log_denominators + token,
                         p.log_denominators + head.row * p.seq_len + (valid ? token : 0), valid);
    }
    ArriveAfterCopies(w.arrived + tile);
  }
  // Neighbouring lanes share a token of a tile.
  constexpr int kLanes = kNumThreads / kTile;
  constexpr int kWords = W::kD / (4 * kLanes);
  uint2 words[W::kTiles][2][kWords];
#pragma unroll
  for (int tile = 0; tile < W::kTiles; ++tile) {
    if (tile >= num_tiles) continue;
    const std::int64_t token =
        min(tile * kTile + static_cast<std::int64_t>(thread / kLanes), p.seq_len - 1);
#pragma unroll
    for (int n = 0; n < kWords; ++n) {
      const int channel = (thread % kLanes + n * kLanes) * 4;
      words[tile][0][n] = *reinterpret_cast<const uint2*>(o.Token(token) + channel);
      words[tile][1][n] = *reinterpret_cast<const uint2*>(d_o.Token(token) + channel);
    }
  }
#pragma unroll
  for (int tile = 0; tile < W::kTiles; ++tile) {
    if (tile >= num_tiles) continue;
    float sum = 0;
#pragma unroll
    for (int n = 0; n < kWords; ++n) {
      const uint2 a = words[tile][0][n];
      const uint2 b = words[tile][1][n];
      sum += device::LowBf16(a.x) * device::LowBf16(b.x) +
             device::HighBf16(a.x) * device::HighBf16(b.x) +
             device::LowBf16(a.y) * device::LowBf16(b.y) +
             device::HighBf16(a.y) * device::HighBf16(b.y);
    }
#pragma unroll
    for (int lanes = 1; lanes < kLanes; lanes *= 2) sum += device::ShuffleXor(sum, lanes);
    if constexpr (kDrops) sum /= p.dropout.scale;
    if (thread % kLanes == 0) w.deltas[tile * kTile + thread / kLanes] = sum;
    device::Arrive(w.arrived + tile);
  }
}

}  // namespace mixerbench::kernels::softmax_attention
