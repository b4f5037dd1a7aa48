// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/softmax_attention/query_reader.cuh"
#include "kernels/attention/softmax_attention/scored_positions.cuh"

namespace mixerbench::kernels::softmax_attention {
namespace {

// What the warps have read of 16 queries each, to be joined: warps that share queries have read
// different keys.
template <int kD>
struct Partials {
  static constexpr int kRow = kD + 8;  // no two lanes of a store in one bank
  float* o;                            // [warp][16][kRow], not divided by the denominator
  float* maxima;                       // [warp][16]
  float* denominators;

  __device__ explicit Partials(void* shared)
      : o(static_cast<float*>(shared)),
        maxima(o + kThreads / 32 * 16 * kRow),
        denominators(maxima + kThreads / 32 * 16) {}

  __device__ void Store(QueryReader<kD>& reader) const {
    const int first = device::WarpId() * 16;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = first + device::BlockRow(2 * i);
      const float denominator = RowSum(reader.denominator[i]);
      if (device::LaneId() % 4 == 0) {
        maxima[row] = reader.maximum[i];
        denominators[row] = denominator;
      }
#pragma unroll
      for (int d = 0; d < kD / 16; ++d) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          *reinterpret_cast<float2*>(o + row * kRow + d * 16 + device::BlockColumn(h, 0)) = {
              reader.o[d][h][2 * i], reader.o[d][h][2 * i + 1]};
        }
      }
    }
  }
};

// CTAs that shall share a multiprocessor, so that a batch is one wave of them.
template <int kD, int kQueryBlocks>
constexpr int kMinBlocks = kD == 128          ? 2
                           : kQueryBlocks > 1 ? 4
                           : kD == 64         ? 5
                                              : 8;

// Block: 16 kQueryBlocks queries of one (b, h). It scans the tiles of keys up to the last that a
// query sees; a warp has 16 queries and kQueryBlocks blocks of 16 keys of every tile. What the
// warps have read of a query is joined in shared memory at the end. Shared memory: q, two stages of
// k and v and of their decays. Sums fp32 in registers. Deterministic.
template <int kD, int kQueryBlocks, bool kDrops, bool kHasTerms>
__global__ void __launch_bounds__(kThreads, kMinBlocks<kD, kQueryBlocks>)
    ScoredPositionsForwardKernel(const ScoredProblem p) {
  constexpr int kQueries = 16 * kQueryBlocks;
  constexpr int kRow = device::PaddedRow(kD);
  using Tiles = KeyTiles<kD, kHasTerms>;
  static_assert(sizeof(float) * kTile * (Partials<kD>::kRow + 2) <= Tiles::kBytes);
  extern __shared__ __align__(16) char shared_bytes[];
  Element* const stages = reinterpret_cast<Element*>(shared_bytes);
  Element* const q = stages + 4 * Tiles::kSize;

  const auto num_groups = static_cast<unsigned>((p.num_queries + kQueries - 1) / kQueries);
  const Head head(p, blockIdx.x / num_groups);
  const std::int64_t first = std::int64_t{blockIdx.x % num_groups} * kQueries;
  const auto num_valid =
      static_cast<int>(min(static_cast<std::int64_t>(kQueries), p.num_queries - first));
  const Rows q_rows(p.q, head);
  const Tiles tiles = {stages, {reinterpret_cast<float2*>(q + kQueries * kRow)}};
  device::CopyRowsAsync<kQueries>(q, q_rows.Token(first), q_rows.stride, num_valid, kD);
  tiles.Load(p, head, 0, 1);
  const int num_tiles = LastPosition<kQueries>(p, head, first) / kTile + 1;
  tiles.Load(p, head, 1, num_tiles);

  const int query_block = device::WarpId() % kQueryBlocks;
  const int first_key = device::WarpId() / kQueryBlocks * kQueryBlocks * 16;
  int position[2];
  float query_decay[2] = {};
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    position[i] = Position(p, head, first + query_block * 16 + device::BlockRow(2 * i));
    if constexpr (kHasTerms) query_decay[i] = DecayOfQuery(p, head, position[i]);
  }
  const ScoredDropout<kDrops> dropout(p, head);
  const int drawn_position =
      kDrops ? Position(p, head, first + query_block * 16 + device::LaneId() % 16) : 0;
  const VisibleBlocks<false> all = {};
  const float scale = p.scale * kLog2E;
  QueryReader<kD> reader;
#pragma unroll 1
  for (int tile = 0; tile < num_tiles; ++tile) {
    tiles.Wait();
    Accumulators scores[kQueryBlocks];
    device::Clear(scores);
    MultiplyTransposed<kD>(scores, q + query_block * 16 * kRow, tiles.Keys(tile) + first_key * kRow,
                           all);
#pragma unroll
    for (int b = 0; b < kQueryBlocks; ++b) {
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const int key_in_tile = first_key + b * 16 + device::BlockColumn(e / 4, e % 4);
        const int distance = position[e % 4 / 2] - (tile * kTile + key_in_tile);
        float& x = scores[b][e / 4][e % 4];
        if constexpr (kHasTerms) {
          x = ScoreWithTerms(p, x * scale, query_decay[e % 4 / 2],
                             tiles.decays.Tile(tile)[key_in_tile], distance);
        }
        if (distance < 0) x = -INFINITY;
      }
    }
    reader.ToWeights(scores, all, kHasTerms ? 1 : scale);
    // Lanes 0 to 15 draw for one block of keys, the others for the next.
#pragma unroll
    for (int b = 0; b < kQueryBlocks; b += 2) {
      const std::uint32_t word =
          dropout.Draw(drawn_position, (tile * kTile + first_key) / 16 + b + device::LaneId() / 16);
#pragma unroll
      for (int n = b; n < min(b + 2, kQueryBlocks); ++n) {
        dropout.Apply(word, (n - b) * 16, scores[n]);
      }
    }
    Multiply<kD>(reader.o, scores, tiles.Values(tile) + first_key * kRow, all);
    __syncthreads();
    tiles.Load(p, head, tile + 2, num_tiles);
  }
  const Partials<kD> partials(shared_bytes);
  partials.Store(reader);
  __syncthreads();

  constexpr int kVectors = kD / 8;  // of 16 bytes in a row
  const Rows o_rows(p.o, head);
  for (int i = static_cast<int>(threadIdx.x); i < num_valid * kVectors; i += kThreads) {
    const int row = i / kVectors;
    const int column = i % kVectors * 8;
    float maximum = kNoMaximum;
#pragma unroll
    for (int part = row; part < kTile; part += kQueries) {
      maximum = fmaxf(maximum, partials.maxima[part]);
    }
    float denominator = 0;
    float o[8] = {};
#pragma unroll
    for (int part = row; part < kTile; part += kQueries) {
      const float factor = device::Exp2(partials.maxima[part] - maximum);
      denominator += factor * partials.denominators[part];
#pragma unroll
      for (int c = 0; c < 8; ++c) {
        o[c] += factor * partials.o[part * Partials<kD>::kRow + column + c];
      }
    }
    const float inverse = (kDrops ? p.dropout.scale : 1) / denominator;
    uint4 words;
    words.x = device::PackBf16(o[0] * inverse, o[1] * inverse);
    words.y = device::PackBf16(o[2] * inverse, o[3] * inverse);
    words.z = device::PackBf16(o[4] * inverse, o[5] * inverse);
    words.w = device::PackBf16(o[6] * inverse, o[7] * inverse);
    *reinterpret_cast<uint4*>(o_rows.Token(first + row) + column) = words;
    if (column == 0) {
      p.log_denominators[head.row * p.num_queries + first + row] = maximum + log2f(denominator);
    }
  }
}

template <int kD, int kQueryBlocks, bool kDrops, bool kHasTerms>
cudaError_t Launch(const ScoredProblem& p, cudaStream_t stream) {
  constexpr int kQueries = 16 * kQueryBlocks;
  const std::int64_t num_groups = (p.num_queries + kQueries - 1) / kQueries;
  constexpr std::size_t kBytes = KeyTiles<kD, kHasTerms>::kBytes +
                                 kQueries * device::PaddedRow(kD) * sizeof(Element) +
                                 KeyDecays<kHasTerms>::kBytes;
  return device::Launch(ScoredPositionsForwardKernel<kD, kQueryBlocks, kDrops, kHasTerms>,
                        p.batch_size * p.num_heads * num_groups, kThreads, kBytes, stream, p);
}

}  // namespace

int ScoredPositionsForward(const ScoredProblem& problem, CUstream_st* stream) {
  return ForKernel(problem, [&]<int kD, bool kDrops, bool kHasTerms>() {
    if (problem.num_queries <= 16) return Launch<kD, 1, kDrops, kHasTerms>(problem, stream);
    if (problem.num_queries <= 32) return Launch<kD, 2, kDrops, kHasTerms>(problem, stream);
    return Launch<kD, 4, kDrops, kHasTerms>(problem, stream);
  });
}

}  // namespace mixerbench::kernels::softmax_attention
