// What the kernels of scored queries share: CTAs that hold 16 kQueryBlocks queries of
// one (b, h) and scan tiles of 64 keys and values up to the last one that a query sees.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/softmax_attention/attention_tiles.cuh"
#include "kernels/attention/softmax_attention/score_terms.cuh"
#include "kernels/attention/softmax_attention/scored_positions_kernels.h"

namespace mixerbench::kernels::softmax_attention {

// The token of query `query` of a sequence, which sees the keys up to it.
__device__ inline int Position(const ScoredProblem& p, const Head& head, std::int64_t query) {
  if (query >= p.num_queries) return 0;
  const std::int64_t position = p.rows[head.batch * p.num_queries + query] - head.batch * p.seq_len;
  return position >= 0 && position < p.seq_len ? static_cast<int>(position) : 0;
}

// The last position of queries [first, first + kCount), the same in every lane.
template <int kCount>
__device__ int LastPosition(const ScoredProblem& p, const Head& head, std::int64_t first) {
  int last = 0;
  for (int query = device::LaneId(); query < kCount; query += 32) {
    last = max(last, Position(p, head, first + query));
  }
  return __reduce_max_sync(~0u, last);
}

// Drops weights of blocks of 16 queries and 16 keys (attention_dropout.h); the queries stand at any
// tokens, so a lane draws the word of one query. Without kDrops nothing is drawn.
template <bool kDrops>
struct ScoredDropout {
  std::uint32_t threshold = 0;
  std::uint64_t seed = 0;
  std::uint32_t row = 0;

  __device__ ScoredDropout(const ScoredProblem& p, const Head& head) {
    if constexpr (kDrops) {
      threshold = p.dropout.threshold;
      seed = static_cast<std::uint64_t>(*p.dropout_seed);
      row = static_cast<std::uint32_t>(head.row);
    }
  }
  // Bit m: whether key 16 key_block + m is dropped for the query at `position`.
  __device__ std::uint32_t Draw(int position, int key_block) const {
    if constexpr (kDrops) {
      return DroppedKeys(threshold, seed, row, static_cast<std::uint32_t>(position),
                         static_cast<std::uint32_t>(key_block));
    } else {
      return 0;
    }
  }
  // Sets dropped weights [query, key] to zero; lane first_lane + i has the word of query i.
  __device__ static void Apply(std::uint32_t word, int first_lane, Accumulators& weights) {
    if constexpr (kDrops) {
      std::uint32_t words[2];  // of queries g and g + 8
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        words[i] = __shfl_sync(~0u, word, first_lane + device::BlockRow(2 * i));
      }
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        if (words[e % 4 / 2] >> device::BlockColumn(e / 4, e % 4) & 1u) weights[e / 4][e % 4] = 0;
      }
    }
  }
  // The same of weights [key, query]; lane i has the word of query i.
  __device__ static void ApplyTransposed(std::uint32_t word, Accumulators& weights) {
    if constexpr (kDrops) {
      std::uint32_t words[4];  // of queries 2t, 2t + 1, 2t + 8 and 2t + 9
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        words[i] = __shfl_sync(~0u, word, device::BlockColumn(i / 2, i % 2));
      }
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        if (words[e / 4 * 2 + e % 2] >> device::BlockRow(e % 4) & 1u) weights[e / 4][e % 4] = 0;
      }
    }
  }
};

// Two stages of a tile of keys and one of values, and of their decays elsewhere. Tiles 0 and 1 are
// loaded first, and j + 2 when all threads are done with j; every load is one group of copies.
template <int kD, bool kHasTerms>
struct KeyTiles {
  static constexpr int kSize = kTile * device::PaddedRow(kD);
  static constexpr int kBytes = 4 * kSize * sizeof(Element);

  Element* stages;  // k, v, k, v
  KeyDecays<kHasTerms> decays;

  __device__ Element* Keys(int tile) const { return stages + tile % 2 * 2 * kSize; }
  __device__ Element* Values(int tile) const { return Keys(tile) + kSize; }

  // Starts the copy of a tile if it is one of the `num_tiles` that are read.
  __device__ void Load(const ScoredProblem& p, const Head& head, int tile, int num_tiles) const {
    if (tile < num_tiles) {
      const std::int64_t first = std::int64_t{tile} * kTile;
      CopyTile<kD, kThreads>(Keys(tile), Rows(p.k, head), first, p.seq_len);
      CopyTile<kD, kThreads>(Values(tile), Rows(p.v, head), first, p.seq_len);
      decays.Load(p, head, tile);
    }
    device::CommitCopies();
  }
  // Until the older of two loaded tiles is there for all threads.
  __device__ static void Wait() {
    device::WaitForCopies<1>();
    __syncthreads();
  }
};

}  // namespace mixerbench::kernels::softmax_attention
