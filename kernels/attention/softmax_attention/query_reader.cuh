// The forward pass of a warp: 16 queries that read tiles of keys and values one after the other.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/softmax_attention/attention_tiles.cuh"
#include "kernels/attention/softmax_attention/score_terms.cuh"

namespace mixerbench::kernels::softmax_attention {

// Below every score, and finite: a warp may see no key of a query.
constexpr float kNoMaximum = -1e30f;

// 16 queries of one warp and what they have read so far. Running maximum and sum, scores and
// outputs fp32 in registers.
template <int kD>
struct QueryReader {
  static constexpr float kSlack = 8;  // in base two, see Read

  Accumulators o[kD / 16];
  float maximum[2] = {kNoMaximum, kNoMaximum};  // of rows g and g + 8, in base two
  float denominator[2] = {0, 0};                // this lane's part

  __device__ QueryReader() { device::Clear(o); }

  // A tile of keys and values. The queries are block `block` of the diagonal tile; they see all of
  // other tiles, but for a window. `apply_terms` gives scores their terms; `scale` is left for the
  // others. `dropped` is this lane's word of DropoutDraws::OfKeys.
  template <bool kIsDiagonal, bool kDrops, typename ApplyTerms>
  __device__ void Read(const Element* q, const Element* k_tile, const Element* v_tile, int block,
                       float scale, std::uint32_t dropped, const ApplyTerms& apply_terms) {
    const VisibleBlocks<kIsDiagonal> blocks = {0, block + 1};
    Accumulators scores[kTile / 16];
    device::Clear(scores);
    MultiplyTransposed<kD>(scores, q, k_tile, blocks);
    apply_terms(scores);
    if (kIsDiagonal) {
#pragma unroll
      for (int b = 0; b < kTile / 16; ++b) {
#pragma unroll
        for (int e = 0; e < 8; ++e) {
          const bool hidden =
              b * 16 + device::BlockColumn(e / 4, e % 4) > block * 16 + device::BlockRow(e % 4);
          if (hidden) scores[b][e / 4][e % 4] = -INFINITY;
        }
      }
    }
    ToWeights(scores, blocks, scale);
#pragma unroll
    for (int b = 0; b < kTile / 16; ++b) {
      if (!blocks.Has(b)) continue;
      using Draws = DropoutDraws<kDrops>;
      Draws::Apply(Draws::Bits(dropped, b), scores[b]);
    }
    Multiply<kD>(o, scores, v_tile, blocks);
  }

  // Scores of the next 16 kBlocks keys, minus infinity where hidden, become weights.
  template <int kBlocks, bool kIsDiagonal>
  __device__ void ToWeights(Accumulators (&scores)[kBlocks],
                            const VisibleBlocks<kIsDiagonal>& blocks, float scale) {
    float tile_maximum[2] = {-INFINITY, -INFINITY};
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        tile_maximum[e % 4 / 2] = fmaxf(tile_maximum[e % 4 / 2], scores[b][e / 4][e % 4]);
      }
    }
    float next[2];  // finite, as the maximum is; the scale is positive
#pragma unroll
    for (int i = 0; i < 2; ++i) next[i] = fmaxf(maximum[i], RowMax(tile_maximum[i]) * scale);
    // Weights up to 2^kSlack of an older maximum are as exact.
    if (!device::AllLanes(next[0] <= maximum[0] + kSlack && next[1] <= maximum[1] + kSlack)) {
      Rescale(next);
    }
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      if (!blocks.Has(b)) continue;
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        float& x = scores[b][e / 4][e % 4];
        x = device::Exp2(x * scale - maximum[e % 4 / 2]);
        denominator[e % 4 / 2] += x;
      }
    }
  }

  // Moves the sums to other maxima.
  __device__ void Rescale(const float (&next)[2]) {
    float factor[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      factor[i] = device::Exp2(maximum[i] - next[i]);
      maximum[i] = next[i];
      denominator[i] *= factor[i];
    }
#pragma unroll
    for (int d = 0; d < kD / 16; ++d) {
#pragma unroll
      for (int e = 0; e < 8; ++e) o[d][e / 4][e % 4] *= factor[e % 4 / 2];
    }
  }

  // Stores the outputs and log denominators of the queries from `first` on.
  __device__ void Store(const AttentionProblem& p, const Head& head, std::int64_t first) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      denominator[i] = RowSum(denominator[i]);
      const std::int64_t token = first + device::BlockRow(2 * i);
      if (device::LaneId() % 4 == 0 && token < p.seq_len) {
        p.log_denominators[head.row * p.seq_len + token] = maximum[i] + log2f(denominator[i]);
      }
    }
    StoreResult<kD>(Rows(p.o, head), first, p.seq_len, o, p.dropout.scale * (1 / denominator[0]),
                    p.dropout.scale * (1 / denominator[1]));
  }
};

}  // namespace mixerbench::kernels::softmax_attention
