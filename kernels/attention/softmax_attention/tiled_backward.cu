// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/softmax_attention/attention_tiles.cuh"
#include "kernels/attention/softmax_attention/score_terms.cuh"

namespace mixerbench::kernels::softmax_attention {
namespace {

// P recomputed from scores and log denominators in base two; 0 where hidden.
__device__ inline float Weight(float score, float scale, float log_denominator, bool hidden) {
  return hidden ? 0.f : device::Exp2(score * scale - log_denominator);
}

// dQ, and for the kernel of dK and dV delta and what queries add to dc. With dropout deltas are
// divided by its scale c, as dl = P (c m dP - delta) with m = 0 or 1; c joins the factor of the
// result. Block: 64 queries of one (b, h), a warp 16 of them; it scans the tiles of keys up to its
// own. Shared memory: q, dO, two stages of k and v and of their decays. Sums fp32 in registers.
// Deterministic.
template <int kD, bool kDrops, bool kHasTerms>
__global__ void __launch_bounds__(kThreads) QueryGradientKernel(const AttentionProblem p) {
  constexpr int kTileSize = kTile * device::PaddedRow(kD);
  extern __shared__ __align__(16) char shared_bytes[];
  Element* const q_tile = reinterpret_cast<Element*>(shared_bytes);
  Element* const d_o_tile = q_tile + kTileSize;
  Element* const stages = d_o_tile + kTileSize;  // k, v, k, v
  const KeyDecays<kHasTerms> decays = {reinterpret_cast<float2*>(stages + 4 * kTileSize)};

  const auto num_rows = static_cast<unsigned>(p.batch_size * p.num_heads);
  const std::int64_t tile = NumTiles(p) - 1 - blockIdx.x / num_rows;
  const Head head(p, blockIdx.x % num_rows);
  const Rows k_rows(p.k, head), v_rows(p.v, head), o_rows(p.o, head), d_o_rows(p.d_o, head);
  const int warp = device::WarpId();
  const auto load = [&](std::int64_t j) {
    Element* stage = stages + j % 2 * 2 * kTileSize;
    CopyTile<kD, kThreads>(stage, k_rows, j * kTile, p.seq_len);
    CopyTile<kD, kThreads>(stage + kTileSize, v_rows, j * kTile, p.seq_len);
    decays.Load(p, head, j);
    device::CommitCopies();
  };
  const std::int64_t first_tile = FirstVisibleTile<kHasTerms>(p, tile * kTile);
  CopyTile<kD, kThreads>(q_tile, Rows(p.q, head), tile * kTile, p.seq_len);
  CopyTile<kD, kThreads>(d_o_tile, d_o_rows, tile * kTile, p.seq_len);
  load(first_tile);

  // delta_i = <dO_i, o_i>; the four lanes of a row share its channels.
  const std::int64_t first = tile * kTile + warp * 16;
  float delta[2], log_denominator[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const std::int64_t token = min(first + device::BlockRow(2 * i), p.seq_len - 1);
    const Element* o_row = o_rows.Token(token);
    const Element* d_o_row = d_o_rows.Token(token);
    float sum = 0;
#pragma unroll
    for (int d = device::LaneId() % 4 * 4; d < kD; d += 16) {
      const uint2 o_words = *reinterpret_cast<const uint2*>(o_row + d);
      const uint2 d_o_words = *reinterpret_cast<const uint2*>(d_o_row + d);
      sum += device::LowBf16(o_words.x) * device::LowBf16(d_o_words.x) +
             device::HighBf16(o_words.x) * device::HighBf16(d_o_words.x) +
             device::LowBf16(o_words.y) * device::LowBf16(d_o_words.y) +
             device::HighBf16(o_words.y) * device::HighBf16(d_o_words.y);
    }
    delta[i] = RowSum(sum);
    if constexpr (kDrops) delta[i] /= p.dropout.scale;
    log_denominator[i] = p.log_denominators[head.row * p.seq_len + token];
    if (device::LaneId() % 4 == 0 && first + device::BlockRow(2 * i) < p.seq_len) {
      p.o_products[head.row * p.seq_len + token] = delta[i];
    }
  }

  const float scale = p.scale * kLog2E;
  const DropoutDraws<kDrops> draws(p, head.row);
  const QueryTerms<kHasTerms> terms(p, head, first);
  Accumulators d_q[kD / 16];
  device::Clear(d_q);
  DecayGradient d_decay;
  const auto visit = [&](std::int64_t j, auto is_diagonal) {
    constexpr bool kIsDiagonal = decltype(is_diagonal)::value;
    const std::uint32_t dropped = draws.OfKeys(tile * 4 + warp, j * 4);
    device::WaitForBlockCopies();
    if (!kIsDiagonal) load(j + 1);
    const Element* k_tile = stages + j % 2 * 2 * kTileSize;
    const VisibleBlocks<kIsDiagonal> blocks = {0, warp + 1};
    const int own = warp * 16 * device::PaddedRow(kD);

    Accumulators scores[kTile / 16];  // then dl
    Accumulators d_weights[kTile / 16];
    device::Clear(scores);
    device::Clear(d_weights);
    MultiplyTransposed<kD>(scores, q_tile + own, k_tile, blocks);
    terms.Apply(p, scores, scale, decays.Tile(j), warp, static_cast<int>(tile - j) * kTile);
    MultiplyTransposed<kD>(d_weights, d_o_tile + own, k_tile + kTileSize, blocks);
#pragma unroll
    for (int b = 0; b < kTile / 16; ++b) {
      draws.Apply(draws.Bits(dropped, b), d_weights[b]);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const int i = e % 4 / 2;
        float& x = scores[b][e / 4][e % 4];
        const bool hidden = kIsDiagonal && b * 16 + device::BlockColumn(e / 4, e % 4) >
                                               warp * 16 + device::BlockRow(e % 4);
        x = Weight(x, kHasTerms ? 1 : scale, log_denominator[i], hidden) *
            (d_weights[b][e / 4][e % 4] - delta[i]);
        if constexpr (kHasTerms) d_decay.sum[i] += x;
      }
    }
    Multiply<kD>(d_q, scores, k_tile, blocks);
  };
  for (std::int64_t j = first_tile; j < tile; ++j) visit(j, std::false_type());
  visit(tile, std::true_type());
  const float factor = p.scale * p.dropout.scale;
  StoreResult<kD>(Rows(p.d_q, head), first, p.seq_len, d_q, factor, factor);
  if constexpr (kHasTerms) {
    d_decay.Store(p, head, first, [&](float& dc, float sum) { dc = p.dropout.scale * sum; });
  }
}

// dK and dV, and all of dc. Block: 64 keys of one (b, h), a warp 16 of
// them; it scans the tiles of queries from its own to the last that sees them. Scores are
// transposed, [key, query], so that they are left operands of both results. Shared memory: k, v,
// two stages of q, dO, log denominators, delta and decays of queries. Deterministic.
template <int kD, bool kDrops, bool kHasTerms>
__global__ void __launch_bounds__(kThreads) KeyValueGradientKernel(const AttentionProblem p) {
  constexpr int kTileSize = kTile * device::PaddedRow(kD);
  extern __shared__ __align__(16) char shared_bytes[];
  Element* const k_tile = reinterpret_cast<Element*>(shared_bytes);
  Element* const v_tile = k_tile + kTileSize;
  Element* const stages = v_tile + kTileSize;                                  // q, dO, q, dO
  float* const statistics = reinterpret_cast<float*>(stages + 4 * kTileSize);  // [stage][2][64]
  float* const decays = statistics + 4 * kTile;                                // [stage][64]

  const auto num_rows = static_cast<unsigned>(p.batch_size * p.num_heads);
  const std::int64_t tile = blockIdx.x / num_rows;  // the first tiles have the most queries
  std::int64_t num_tiles = NumTiles(p);             // of queries
  if constexpr (kHasTerms) {
    num_tiles = min(num_tiles, ((tile + 1) * kTile - 1 + p.window - 1) / kTile + 1);
  }
  const Head head(p, blockIdx.x % num_rows);
  const Rows q_rows(p.q, head), d_o_rows(p.d_o, head);
  const int warp = device::WarpId();
  const auto load = [&](std::int64_t i) {
    Element* stage = stages + i % 2 * 2 * kTileSize;
    CopyTile<kD, kThreads>(stage, q_rows, i * kTile, p.seq_len);
    CopyTile<kD, kThreads>(stage + kTileSize, d_o_rows, i * kTile, p.seq_len);
    // 128 threads: 64 log denominators, 64 deltas.
    const float* source = threadIdx.x < kTile ? p.log_denominators : p.o_products;
    const std::int64_t token = i * kTile + threadIdx.x % kTile;
    const bool valid = token < p.seq_len;
    device::CopyAsync4(statistics + i % 2 * 2 * kTile + threadIdx.x,
                       source + head.row * p.seq_len + (valid ? token : 0), valid);
    if (kHasTerms && threadIdx.x < kTile) {
      const bool has_decay = valid && p.decay_sums != nullptr;
      device::CopyAsync4(
          decays + i % 2 * kTile + threadIdx.x,
          has_decay ? p.decay_sums + 2 * (head.row * p.seq_len + token) : p.log_denominators,
          has_decay);
    }
    device::CommitCopies();
  };
  CopyTile<kD, kThreads>(k_tile, Rows(p.k, head), tile * kTile, p.seq_len);
  CopyTile<kD, kThreads>(v_tile, Rows(p.v, head), tile * kTile, p.seq_len);
  load(tile);

  const float scale = p.scale * kLog2E;
  const DropoutDraws<kDrops> draws(p, head.row);
  const int own = warp * 16 * device::PaddedRow(kD);
  Accumulators d_k[kD / 16];
  Accumulators d_v[kD / 16];
  device::Clear(d_k);
  device::Clear(d_v);
  float2 key_decay[2] = {};  // of rows g and g + 8
  DecayGradient d_decay;
  if (kHasTerms && p.decay_sums != nullptr) {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const std::int64_t token =
          min(tile * kTile + warp * 16 + device::BlockRow(2 * n), p.seq_len - 1);
      key_decay[n] = reinterpret_cast<const float2*>(p.decay_sums)[head.row * p.seq_len + token];
    }
  }
  const auto visit = [&](std::int64_t i, auto is_diagonal) {
    constexpr bool kIsDiagonal = decltype(is_diagonal)::value;
    const std::uint32_t dropped = draws.OfQueries(i * 4, tile * 4 + warp);
    device::WaitForBlockCopies();
    if (i + 1 < num_tiles) load(i + 1);
    const Element* q_tile = stages + i % 2 * 2 * kTileSize;
    const Element* d_o_tile = q_tile + kTileSize;
    const float* log_denominator = statistics + i % 2 * 2 * kTile;
    const float* delta = log_denominator + kTile;
    const VisibleBlocks<kIsDiagonal> blocks = {warp, kTile / 16};

    Accumulators weights[kTile / 16];  // P^T
    device::Clear(weights);
    MultiplyTransposed<kD>(weights, k_tile + own, q_tile, blocks);
#pragma unroll
    for (int b = 0; b < kTile / 16; ++b) {
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const int query = b * 16 + device::BlockColumn(e / 4, e % 4);
        const int key = warp * 16 + device::BlockRow(e % 4);
        bool hidden = kIsDiagonal && query < key;
        float& x = weights[b][e / 4][e % 4];
        if constexpr (kHasTerms) {
          // Queries past the end have no sums of decays: their scores may be of any size.
          hidden = hidden || i * kTile + query >= p.seq_len;
          x = ScoreWithTerms(p, x * scale, decays[i % 2 * kTile + query], key_decay[e % 4 / 2],
                             static_cast<int>(i - tile) * kTile + query - key);
        }
        x = Weight(x, kHasTerms ? 1 : scale, log_denominator[query], hidden);
      }
    }
    std::uint32_t bits[kTile / 16];
    Accumulators kept[kTile / 16];
#pragma unroll
    for (int b = 0; b < kTile / 16; ++b) {
      bits[b] = draws.TransposedBits(dropped, b);
#pragma unroll
      for (int e = 0; e < 8; ++e) kept[b][e / 4][e % 4] = weights[b][e / 4][e % 4];
      draws.Apply(bits[b], kept[b]);
    }
    Multiply<kD>(d_v, kept, d_o_tile, blocks);

    Accumulators d_weights[kTile / 16];  // dP^T
    device::Clear(d_weights);
    MultiplyTransposed<kD>(d_weights, v_tile + own, d_o_tile, blocks);
#pragma unroll
    for (int b = 0; b < kTile / 16; ++b) {
      draws.Apply(bits[b], d_weights[b]);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const int query = b * 16 + device::BlockColumn(e / 4, e % 4);
        weights[b][e / 4][e % 4] *= d_weights[b][e / 4][e % 4] - delta[query];
        if constexpr (kHasTerms) d_decay.sum[e % 4 / 2] += weights[b][e / 4][e % 4];
      }
    }
    Multiply<kD>(d_k, weights, q_tile, blocks);
  };
  visit(tile, std::true_type());
  for (std::int64_t i = tile + 1; i < num_tiles; ++i) visit(i, std::false_type());
  const std::int64_t first = tile * kTile + warp * 16;
  const float factor = p.scale * p.dropout.scale;
  StoreResult<kD>(Rows(p.d_k, head), first, p.seq_len, d_k, factor, factor);
  StoreResult<kD>(Rows(p.d_v, head), first, p.seq_len, d_v, p.dropout.scale, p.dropout.scale);
  if constexpr (kHasTerms) {
    d_decay.Store(p, head, first, [&](float& dc, float sum) { dc -= p.dropout.scale * sum; });
  }
}

}  // namespace

int TiledBackward(const AttentionProblem& problem, CUstream_st* stream) {
  const std::int64_t num_blocks = problem.batch_size * problem.num_heads * NumTiles(problem);
  return ForKernel(problem, [&]<int kD, bool kDrops, bool kHasTerms>() {
    constexpr std::size_t kTileBytes = kTile * device::PaddedRow(kD) * sizeof(Element);
    constexpr int kStatistics = kHasTerms ? 6 : 4;  // of 64 queries each
    const cudaError_t status =
        device::Launch(QueryGradientKernel<kD, kDrops, kHasTerms>, num_blocks, kThreads,
                       6 * kTileBytes + KeyDecays<kHasTerms>::kBytes, stream, problem);
    if (status != cudaSuccess) return status;
    return device::Launch(KeyValueGradientKernel<kD, kDrops, kHasTerms>, num_blocks, kThreads,
                          6 * kTileBytes + kStatistics * kTile * sizeof(float), stream, problem);
  });
}

}  // namespace mixerbench::kernels::softmax_attention
