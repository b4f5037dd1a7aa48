// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/attention/softmax_attention/scored_positions.cuh"
#include "kernels/attention/softmax_attention/softmax_attention_plan.h"

namespace mixerbench::kernels::softmax_attention {
namespace {

// A CTA that holds q, dO, log denominators, delta, positions and decays of up to
// 16 kQueryBlocks queries, all those of one (b, h), beside the tiles of keys.
template <int kHeadDim, int kNumQueryBlocks, bool kWithTerms>
struct QueryShape {
  static constexpr int kD = kHeadDim;
  static constexpr bool kHasTerms = kWithTerms;
  static constexpr int kQueryBlocks = kNumQueryBlocks;
  static constexpr int kQueries = 16 * kQueryBlocks;
  // CTAs that shall share a multiprocessor, so that a batch is one wave of them.
  static constexpr int kMinBlocks = kQueryBlocks > 1 || kD == 128 ? 1
                                    : kD == 64                    ? 4
                                    : kHasTerms                   ? 6
                                                                  : 8;
  static constexpr int kRow = device::PaddedRow(kD);
  static constexpr int kScoreRow = device::PaddedRow(kQueries);
  static constexpr int kWarps = kThreads / 32;
  using Tiles = KeyTiles<kD, kHasTerms>;
  static constexpr int kBytes = Tiles::kBytes + KeyDecays<kHasTerms>::kBytes +
                                (2 * kQueries * kRow + kTile * kScoreRow) * sizeof(Element) +
                                kQueries * (2 * sizeof(float) + sizeof(int)) +
                                (kHasTerms ? kQueries * (1 + kWarps) * sizeof(float) : 0);

  Element* stages;
  float2* key_decays;
  Element *q, *d_o;
  Element* d_scores;  // dl^T of a tile, [key][query]
  float *log_denominators, *deltas;
  int* positions;
  float* decays;    // with terms
  float* row_sums;  // with terms: [warp][query], of dl

  __device__ explicit QueryShape(void* shared)
      : stages(static_cast<Element*>(shared)),
        key_decays(reinterpret_cast<float2*>(stages + 4 * Tiles::kSize)),
        q(reinterpret_cast<Element*>(key_decays) +
          KeyDecays<kHasTerms>::kBytes / static_cast<int>(sizeof(Element))),
        d_o(q + kQueries * kRow),
        d_scores(d_o + kQueries * kRow),
        log_denominators(reinterpret_cast<float*>(d_scores + kTile * kScoreRow)),
        deltas(log_denominators + kQueries),
        positions(reinterpret_cast<int*>(deltas + kQueries)),
        decays(reinterpret_cast<float*>(positions + kQueries)),
        row_sums(decays + kQueries) {}

  // Fills all but the stages; q and dO arrive with the first group of copies. Queries from R on
  // are zeros.
  __device__ void Load(const ScoredProblem& p, const Head& head) const {
    const Rows q_rows(p.q, head), d_o_rows(p.d_o, head), o_rows(p.o, head);
    const auto num_queries = static_cast<int>(p.num_queries);
    device::CopyRowsAsync<kQueries>(q, q_rows.Token(0), q_rows.stride, num_queries, kD);
    device::CopyRowsAsync<kQueries>(d_o, d_o_rows.Token(0), d_o_rows.stride, num_queries, kD);
    const auto thread = static_cast<int>(threadIdx.x);
    if (thread < kQueries) {
      positions[thread] = Position(p, head, thread);
      if constexpr (kHasTerms) decays[thread] = DecayOfQuery(p, head, positions[thread]);
      log_denominators[thread] =
          thread < num_queries ? p.log_denominators[head.row * num_queries + thread] : 0;
    }
    if constexpr (kHasTerms) {
      for (int i = thread; i < kWarps * kQueries; i += kThreads) row_sums[i] = 0;
    }
    // delta_i = <dO_i, o_i>: eight lanes share a query.
    constexpr int kLanes = 8;
    constexpr int kQueriesPerStep = kThreads / kLanes;
#pragma unroll 1
    for (int query = thread / kLanes; query < kQueries; query += kQueriesPerStep) {
      float sum = 0;
      if (query < num_queries) {
#pragma unroll
        for (int d = thread % kLanes * 2; d < kD; d += kLanes * 2) {
          const auto o_word = *reinterpret_cast<const std::uint32_t*>(o_rows.Token(query) + d);
          const auto d_o_word = *reinterpret_cast<const std::uint32_t*>(d_o_rows.Token(query) + d);
          sum += device::LowBf16(o_word) * device::LowBf16(d_o_word) +
                 device::HighBf16(o_word) * device::HighBf16(d_o_word);
        }
      }
#pragma unroll
      for (int lanes = 1; lanes < kLanes; lanes *= 2) sum += device::ShuffleXor(sum, lanes);
      if (thread % kLanes == 0) deltas[query] = sum;
    }
  }
};

// Zeros for keys [first, seq_len), which no query sees.
template <int kD>
__device__ void StoreZeros(const Rows& rows, std::int64_t first, std::int64_t seq_len) {
  constexpr int kVectors = kD / 8;  // of 16 bytes in a row
  const int column = static_cast<int>(threadIdx.x) % kVectors * 8;
  for (std::int64_t token = first + threadIdx.x / kVectors; token < seq_len;
       token += kThreads / kVectors) {
    *reinterpret_cast<uint4*>(rows.Token(token) + column) = make_uint4(0, 0, 0, 0);
  }
}

// Adds the sums of a block's columns to 16 numbers that are this warp's alone.
__device__ inline void AddColumns(const Accumulators& c, float* sums) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {  // columns 2t, 2t + 1, 2t + 8 and 2t + 9
    float sum = c[i / 2][i % 2] + c[i / 2][i % 2 + 2];
#pragma unroll
    for (int lanes = 4; lanes < 32; lanes *= 2) sum += device::ShuffleXor(sum, lanes);
    if (device::LaneId() < 4) sums[device::BlockColumn(i / 2, i % 2)] += sum;
  }
}

// dK, dV and what they have in dc as keys of this warp's 16 keys of a tile, complete; leaves their
// dl^T in shared memory, and what it adds to the sums of queries. Scores are transposed, [key,
// query], so that they are left operands of both gradients.
template <typename S, bool kDrops>
__device__ void VisitKeys(const S& s, const typename S::Tiles& tiles, const ScoredProblem& p,
                          const Head& head, int tile) {
  constexpr int kD = S::kD;
  const VisibleBlocks<false> all = {};
  const int own = device::WarpId() * 16;
  const Element* const keys = tiles.Keys(tile) + own * S::kRow;
  const Element* const values = tiles.Values(tile) + own * S::kRow;
  const int first_key = tile * kTile + own;
  const float scale = p.scale * kLog2E;
  const float kept_scale = kDrops ? p.dropout.scale : 1;
  const ScoredDropout<kDrops> dropout(p, head);
  Accumulators d_k[kD / 16], d_v[kD / 16];
  device::Clear(d_k);
  device::Clear(d_v);
  float2 key_decay[2] = {};  // of rows g and g + 8
  DecayGradient d_decay;
  if constexpr (S::kHasTerms) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      key_decay[i] = tiles.decays.Tile(tile)[own + device::BlockRow(2 * i)];
    }
  }
  const int num_blocks = S::kQueryBlocks == 1 ? 1 : static_cast<int>((p.num_queries + 15) / 16);
#pragma unroll 1
  for (int block = 0; block < num_blocks; ++block) {
    const Element* const q = s.q + block * 16 * S::kRow;
    const Element* const d_o = s.d_o + block * 16 * S::kRow;
    Accumulators weights[1];    // P^T, then dl^T
    Accumulators d_weights[1];  // dP^T / kept_scale
    Accumulators kept[1];       // P^T without dropped weights
    device::Clear(weights);
    device::Clear(d_weights);
    MultiplyTransposed<kD>(weights, keys, q, all);
    MultiplyTransposed<kD>(d_weights, values, d_o, all);
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int query = block * 16 + device::BlockColumn(e / 4, e % 4);
      float& x = weights[0][e / 4][e % 4];
      const int distance = s.positions[query] - (first_key + device::BlockRow(e % 4));
      float score = x * scale;
      if constexpr (S::kHasTerms) {
        score = ScoreWithTerms(p, score, s.decays[query], key_decay[e % 4 / 2], distance);
      }
      x = distance < 0 ? 0.f : device::Exp2(score - s.log_denominators[query]);
    }
    const std::uint32_t word = dropout.Draw(s.positions[block * 16 + device::LaneId() % 16],
                                            tile * (kTile / 16) + device::WarpId());
#pragma unroll
    for (int e = 0; e < 8; ++e) kept[0][e / 4][e % 4] = weights[0][e / 4][e % 4];
    dropout.ApplyTransposed(word, kept[0]);
    dropout.ApplyTransposed(word, d_weights[0]);
    Multiply<kD>(d_v, kept, d_o, all);
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int query = block * 16 + device::BlockColumn(e / 4, e % 4);
      weights[0][e / 4][e % 4] *= kept_scale * d_weights[0][e / 4][e % 4] - s.deltas[query];
      if constexpr (S::kHasTerms) d_decay.sum[e % 4 / 2] += weights[0][e / 4][e % 4];
    }
    if constexpr (S::kHasTerms) {
      AddColumns(weights[0], s.row_sums + device::WarpId() * S::kQueries + block * 16);
    }
    const auto operand = device::ToOperand<Operand>(weights[0]);
    // Its words: keys g and g + 8 of queries 2t and 2t + 1, then of 2t + 8 and 2t + 9.
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      Element* const to = s.d_scores + (own + device::BlockRow(w % 2 * 2)) * S::kScoreRow +
                          block * 16 + device::BlockColumn(w / 2, 0);
      *reinterpret_cast<std::uint32_t*>(to) = operand.r[w];
    }
    Multiply<kD>(d_k, weights, q, all);
  }
  StoreResult<kD>(Rows(p.d_k, head), first_key, p.seq_len, d_k, p.scale, p.scale);
  StoreResult<kD>(Rows(p.d_v, head), first_key, p.seq_len, d_v, kept_scale, kept_scale);
  if constexpr (S::kHasTerms) {
    d_decay.Store(p, head, first_key, [](float& dc, float sum) { dc = -sum; });
  }
}

// dQ of a warp: 16x16 blocks of kRows query blocks, kRowGroups apart, and kColumns neighbouring
// columns of them.
template <typename S>
struct QueryGradients {
  static constexpr int kColumns = std::max(1, S::kD / kTile);
  static constexpr int kColumnGroups = S::kD / 16 / kColumns;
  static constexpr int kRowGroups = kThreads / 32 / kColumnGroups;
  static constexpr int kRows = (S::kQueryBlocks + kRowGroups - 1) / kRowGroups;

  Accumulators d_q[kRows][kColumns];

  __device__ QueryGradients() {
#pragma unroll
    for (int r = 0; r < kRows; ++r) device::Clear(d_q[r]);
  }
  __device__ static int QueryBlock(int r) {
    return device::WarpId() / kColumnGroups + r * kRowGroups;
  }
  __device__ static int Column(int c) {
    return (device::WarpId() % kColumnGroups * kColumns + c) * 16;
  }

  // Adds what a tile of keys contributes, from dl^T in shared memory.
  __device__ void Visit(const S& s, const Element* keys, std::int64_t num_queries) {
    if (QueryBlock(0) * 16 >= num_queries) return;
#pragma unroll
    for (int key = 0; key < kTile; key += 16) {
      Operand::B k[kColumns];
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        k[c] = Operand::LoadBTransposed(keys + key * S::kRow + Column(c), S::kRow);
      }
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (QueryBlock(r) * 16 >= num_queries) continue;
        const auto d_scores = Operand::LoadATransposed(
            s.d_scores + key * S::kScoreRow + QueryBlock(r) * 16, S::kScoreRow);
#pragma unroll
        for (int c = 0; c < kColumns; ++c) device::MultiplyAdd<Operand>(d_q[r][c], d_scores, k[c]);
      }
    }
  }

  __device__ void Store(const ScoredProblem& p, const Head& head) {
    const Rows rows(p.d_q, head);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const std::int64_t first = QueryBlock(r) * 16;
      const auto valid =
          static_cast<int>(min(static_cast<std::int64_t>(16), p.num_queries - first));
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
#pragma unroll
        for (int e = 0; e < 8; ++e) d_q[r][c][e / 4][e % 4] *= p.scale;
        device::StoreRows(rows.Token(first) + Column(c), static_cast<int>(rows.stride), valid,
                          d_q[r][c]);
      }
    }
  }
};

// Adds to dc what the queries have in it: the sums of their dl, which all warps have left by now.
// Of queries that stand at one token the first adds for all.
template <typename S>
__device__ void AddQueryDecays(const S& s, const ScoredProblem& p, const Head& head) {
  const auto query = static_cast<int>(threadIdx.x);
  if (p.d_decay_sums == nullptr || query >= p.num_queries) return;
  const int token = s.positions[query];
  float sum = 0;
#pragma unroll 1
  for (int other = 0; other < p.num_queries; ++other) {
    if (s.positions[other] != token) continue;
    if (other < query) return;
#pragma unroll
    for (int w = 0; w < S::kWarps; ++w) sum += s.row_sums[w * S::kQueries + other];
  }
  p.d_decay_sums[head.row * p.seq_len + token] += sum;
}

// All gradients of one (b, h), a CTA each. It scans the tiles of keys up to the last
// that a query sees: a warp forms P, dP and dl of its 16 keys and all queries once, and dK and dV
// of these keys; dl goes through shared memory, where the warps read it for dQ, which stays in
// their registers. Sums fp32 in registers, in a fixed order.
template <typename S, bool kDrops>
__global__ void __launch_bounds__(kThreads, S::kMinBlocks)
    ScoredPositionsGradientKernel(const ScoredProblem p) {
  extern __shared__ __align__(16) char shared_bytes[];
  const S s(shared_bytes);
  const Head head(p, blockIdx.x);
  const typename S::Tiles tiles = {s.stages, {s.key_decays}};
  s.Load(p, head);
  tiles.Load(p, head, 0, 1);
  const int num_tiles = LastPosition<S::kQueries>(p, head, 0) / kTile + 1;
  tiles.Load(p, head, 1, num_tiles);
  StoreZeros<S::kD>(Rows(p.d_k, head), std::int64_t{num_tiles} * kTile, p.seq_len);
  StoreZeros<S::kD>(Rows(p.d_v, head), std::int64_t{num_tiles} * kTile, p.seq_len);
  if (S::kHasTerms && p.d_decay_sums != nullptr) {
    for (std::int64_t token = num_tiles * kTile + threadIdx.x; token < p.seq_len;
         token += kThreads) {
      p.d_decay_sums[head.row * p.seq_len + token] = 0;
    }
  }
  QueryGradients<S> query_gradients;
#pragma unroll 1
  for (int tile = 0; tile < num_tiles; ++tile) {
    tiles.Wait();
    VisitKeys<S, kDrops>(s, tiles, p, head, tile);
    __syncthreads();  // dl is there
    query_gradients.Visit(s, tiles.Keys(tile), p.num_queries);
    __syncthreads();
    tiles.Load(p, head, tile + 2, num_tiles);
  }
  query_gradients.Store(p, head);
  if constexpr (S::kHasTerms) AddQueryDecays(s, p, head);
}

template <int kD, int kQueryBlocks, bool kDrops, bool kHasTerms>
cudaError_t Launch(const ScoredProblem& problem, cudaStream_t stream) {
  using S = QueryShape<kD, kQueryBlocks, kHasTerms>;
  return device::Launch(ScoredPositionsGradientKernel<S, kDrops>,
                        problem.batch_size * problem.num_heads, kThreads, S::kBytes, stream,
                        problem);
}

}  // namespace

int ScoredPositionsBackward(const ScoredProblem& problem, CUstream_st* stream) {
  if (problem.num_queries > MaxScoredPositions(problem.head_dim)) return cudaErrorInvalidValue;
  return ForKernel(problem, [&]<int kD, bool kDrops, bool kHasTerms>() {
    if (problem.num_queries <= 16) return Launch<kD, 1, kDrops, kHasTerms>(problem, stream);
    if (problem.num_queries <= 64) return Launch<kD, 4, kDrops, kHasTerms>(problem, stream);
    if constexpr (MaxScoredPositions(kD) > 64) {
      return Launch<kD, 8, kDrops, kHasTerms>(problem, stream);
    }
    return cudaErrorInvalidValue;
  });
}

}  // namespace mixerbench::kernels::softmax_attention
