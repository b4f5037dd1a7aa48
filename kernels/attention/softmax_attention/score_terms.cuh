// Scores with a decay or a window (softmax_attention.md): what the kernels add to q.k. All of it is
// in base two and gone from the code without kHasTerms.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/softmax_attention/attention_tiles.cuh"
#include "kernels/device/warp.cuh"

namespace mixerbench::kernels::softmax_attention {

// c of the softmax at a token that asks; what is fine of it all its scores lack.
__device__ inline float DecayOfQuery(const AttentionProblem& p, const Head& head,
                                     std::int64_t token) {
  return p.decay_sums == nullptr ? 0.f : p.decay_sums[2 * (head.row * p.seq_len + token)];
}

// Query `query` and key `key` have tokens that lie `distance` apart. Minus infinity where the key
// is out of the query's window. Differences first: they are small where the sums are not.
__device__ inline float ScoreWithTerms(const AttentionProblem& p, float score, float of_query,
                                       float2 of_key, int distance) {
  return distance >= p.window ? -INFINITY : score + ((of_query - of_key.x) - of_key.y);
}

// c of the 64 keys of a tile as a float and the rest, two stages in shared memory.
template <bool kHasTerms>
struct KeyDecays {
  static constexpr int kBytes = kHasTerms ? 2 * kTile * static_cast<int>(sizeof(float2)) : 0;

  float2* stages;

  // Starts the copy of a tile by all threads, to be committed with what they copy beside it; zeros
  // past the end and without a decay.
  __device__ void Load(const AttentionProblem& p, const Head& head, std::int64_t tile) const {
    static_assert(kThreads == 2 * kTile);
    if constexpr (kHasTerms) {
      const std::int64_t token = tile * kTile + threadIdx.x / 2;
      const bool valid = p.decay_sums != nullptr && token < p.seq_len;
      const float* source = p.log_denominators;  // legal, and not read
      if (valid) source = p.decay_sums + 2 * (head.row * p.seq_len + token) + threadIdx.x % 2;
      device::CopyAsync4(reinterpret_cast<float*>(stages + tile % 2 * kTile) + threadIdx.x, source,
                         valid);
    }
  }
  __device__ const float2* Tile(std::int64_t tile) const { return stages + tile % 2 * kTile; }
};

// The first tile of keys that queries from `first` on see.
template <bool kHasTerms>
__device__ std::int64_t FirstVisibleTile(const AttentionProblem& p, std::int64_t first) {
  if constexpr (!kHasTerms) return 0;
  return max(std::int64_t{0}, first - p.window + 1) / kTile;
}

// What the 16 queries of a warp add to their scores: rows g and g + 8 of a block.
template <bool kHasTerms>
struct QueryTerms {
  float decay[2] = {};

  // The queries are `first` and those after it.
  __device__ QueryTerms(const AttentionProblem& p, const Head& head, std::int64_t first) {
    if constexpr (kHasTerms) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        decay[i] = DecayOfQuery(p, head, min(first + device::BlockRow(2 * i), p.seq_len - 1));
      }
    }
  }

  // Scores q.k of the queries, block `block` of their tile, and the four blocks of keys of a tile
  // `distance` tokens before: times `scale`, with all terms.
  template <int kBlocks>
  __device__ void Apply(const AttentionProblem& p, Accumulators (&scores)[kBlocks], float scale,
                        const float2* of_keys, int block, int distance) const {
    if constexpr (kHasTerms) {
#pragma unroll
      for (int b = 0; b < kBlocks; ++b) {
#pragma unroll
        for (int e = 0; e < 8; ++e) {
          const int query = block * 16 + device::BlockRow(e % 4);
          const int key = b * 16 + device::BlockColumn(e / 4, e % 4);
          float& x = scores[b][e / 4][e % 4];
          x = ScoreWithTerms(p, x * scale, decay[e % 4 / 2], of_keys[key], distance + query - key);
        }
      }
    }
  }
};

// This lane's part of the sums of dl of rows g and g + 8. The sum of a query's dl is zero but for
// what is rounded in its delta; as a part of dc it takes back what that does to the sums of keys,
// which would be added up along the sequence.
struct DecayGradient {
  float sum[2] = {};

  // Calls set(element of d_decay_sums, sum) for each row of the 16 tokens from `first` on.
  template <typename Set>
  __device__ void Store(const AttentionProblem& p, const Head& head, std::int64_t first,
                        const Set& set) const {
    if (p.d_decay_sums == nullptr) return;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float of_row = RowSum(sum[i]);
      const std::int64_t token = first + device::BlockRow(2 * i);
      if (device::LaneId() % 4 == 0 && token < p.seq_len) {
        set(p.d_decay_sums[head.row * p.seq_len + token], of_row);
      }
    }
  }
};

}  // namespace mixerbench::kernels::softmax_attention
