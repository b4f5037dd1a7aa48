// SPDX-License-Identifier: Apache-2.0
#include <type_traits>

#include "kernels/softmax_attention/attention_tiles.cuh"
#include "kernels/softmax_attention/softmax_attention_plan.h"

namespace mixerbench::kernels::softmax_attention {
namespace {

// All of one (b, h) in shared memory: q, k, v, dO, log denominators and delta of kTokens tokens,
// and dl^T of every pair of tiles that see each other.
template <int kHeadDim, int kNumWarps, int kNumBlocks>
struct Whole {
  static constexpr int kD = kHeadDim;
  static constexpr int kWarps = kNumWarps;
  static constexpr int kBlocks = kNumBlocks;  // of 16 keys and queries, of each warp
  static constexpr int kTokens = kWarps * kBlocks * 16;
  static constexpr int kTiles = kTokens / kTile;
  static constexpr int kRow = cuda::PaddedRow(kD);
  static constexpr int kMatrix = kTokens * kRow;
  static constexpr int kPairs = kTiles * (kTiles + 1) / 2;
  static constexpr std::int64_t kBytes = (4 * kMatrix + kPairs * kTile * kTile) * sizeof(Element) +
                                         2 * kTokens * sizeof(float) +
                                         kTiles * sizeof(std::uint64_t);
  static_assert(kBytes == WholeBackwardBytes(kTokens, kD));

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
    return n == 0 ? cuda::WarpId() : 2 * kWarps - 1 - cuda::WarpId();
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
  if (thread < W::kTiles) cuda::InitBarrier(w.arrived + thread, 2 * kNumThreads);
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
      cuda::CopyAsync4(w.log_denominators + token,
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
      sum += cuda::LowBf16(a.x) * cuda::LowBf16(b.x) + cuda::HighBf16(a.x) * cuda::HighBf16(b.x) +
             cuda::LowBf16(a.y) * cuda::LowBf16(b.y) + cuda::HighBf16(a.y) * cuda::HighBf16(b.y);
    }
#pragma unroll
    for (int lanes = 1; lanes < kLanes; lanes *= 2) sum += cuda::ShuffleXor(sum, lanes);
    if constexpr (kDrops) sum /= p.dropout.scale;
    if (thread % kLanes == 0) w.deltas[tile * kTile + thread / kLanes] = sum;
    cuda::Arrive(w.arrived + tile);
  }
}

// dK and dV of a warp's blocks of keys, in its registers, with dropout over its scale, as dl.
template <typename W, bool kDrops>
struct KeyGradients {
  using Draws = DropoutDraws<kDrops>;

  Accumulators d_k[W::kBlocks][W::kD / 16];
  Accumulators d_v[W::kBlocks][W::kD / 16];

  // Walks all queries and leaves dl^T in shared memory.
  __device__ void Form(const W& w, const Draws& draws, int num_blocks, float scale) {
#pragma unroll
    for (int n = 0; n < W::kBlocks; ++n) {
      cuda::Clear(d_k[n]);
      cuda::Clear(d_v[n]);
    }
    const int first = W::OwnBlock(0);
    int num_arrived = first / 4;             // no tile before is needed
    std::uint32_t dropped[W::kBlocks] = {};  // of a tile of queries
#pragma unroll 1
    for (int block = first; block < num_blocks; ++block) {
      if (kDrops && (block == first || block % 4 == 0)) {
#pragma unroll
        for (int n = 0; n < W::kBlocks; ++n) {
          dropped[n] = draws.OfQueries(block / 4 * 4, W::OwnBlock(n));
        }
      }
      if (block / 4 == num_arrived) cuda::WaitForPhase(w.arrived + num_arrived++, 0);
      if (W::kBlocks == 1 || W::OwnBlock(1) > block) {
        Visit<1>(w, dropped, block, scale);
      } else {
        Visit<W::kBlocks>(w, dropped, block, scale);
      }
    }
  }

  // 16 queries and the first kCount of this warp's blocks of keys, which they see. Scores are
  // transposed, [key, query], so that they are left operands of both gradients.
  template <int kCount>
  __device__ void Visit(const W& w, const std::uint32_t (&dropped)[W::kBlocks], int query_block,
                        float scale) {
    const Element* const q = w.q + W::OfBlock(query_block);
    const Element* const d_o = w.d_o + W::OfBlock(query_block);
    float log_denominator[2][2], delta[2][2];
    Accumulators weights[kCount];    // P^T, then dl^T
    Accumulators d_weights[kCount];  // dP^T - delta
    cuda::Clear(weights);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int query = query_block * 16 + cuda::BlockColumn(h, 0);
      const float2 lse = *reinterpret_cast<const float2*>(w.log_denominators + query);
      const float2 deltas = *reinterpret_cast<const float2*>(w.deltas + query);
      log_denominator[h][0] = lse.x, log_denominator[h][1] = lse.y;
      delta[h][0] = deltas.x, delta[h][1] = deltas.y;
#pragma unroll
      for (int n = 0; n < kCount; ++n) {
        d_weights[n][h][0] = d_weights[n][h][2] = -delta[h][0];
        d_weights[n][h][1] = d_weights[n][h][3] = -delta[h][1];
      }
    }
    MultiplyTransposed<kCount>(weights, w.k, q);
    MultiplyTransposed<kCount>(d_weights, w.v, d_o);
    Operand::A operands[kCount];
#pragma unroll
    for (int n = 0; n < kCount; ++n) {
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        float& x = weights[n][e / 4][e % 4];
        x = cuda::Exp2(x * scale - log_denominator[e / 4][e % 2]);
      }
      if (W::OwnBlock(n) == query_block) {
#pragma unroll
        for (int e = 0; e < 8; ++e) {
          const bool hidden = cuda::BlockColumn(e / 4, e % 4) < cuda::BlockRow(e % 4);
          if (hidden) weights[n][e / 4][e % 4] = 0;
        }
      }
      const std::uint32_t bits = Draws::TransposedBits(dropped[n], query_block % 4);
      operands[n] = Draws::template KeptOperand<Operand>(bits, weights[n]);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        if (Draws::Has(bits, e / 4, e % 4)) d_weights[n][e / 4][e % 4] = -delta[e / 4][e % 2];
      }
    }
    Multiply<kCount>(d_v, operands, d_o);
#pragma unroll
    for (int n = 0; n < kCount; ++n) {
#pragma unroll
      for (int e = 0; e < 8; ++e) weights[n][e / 4][e % 4] *= d_weights[n][e / 4][e % 4];
      operands[n] = cuda::ToOperand<Operand>(weights[n]);
      // The operand's words: keys g and g + 8 of queries 2t and 2t + 1, then of 2t + 8 and 2t + 9.
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        Element* const to =
            w.DScores(W::OwnBlock(n), cuda::BlockRow(i % 2 * 2), query_block, i / 2);
        *reinterpret_cast<std::uint32_t*>(to + cuda::BlockColumn(0, 0)) = operands[n].r[i];
      }
    }
    Multiply<kCount>(d_k, operands, q);
  }

  // c [16,16] += a b^T for rows of this warp's keys in `a` and 16 rows `b`, both [token][channel].
  template <int kCount>
  __device__ void MultiplyTransposed(Accumulators (&c)[kCount], const Element* a,
                                     const Element* b) {
#pragma unroll
    for (int d = 0; d < W::kD; d += 16) {
      const auto b_d = Operand::LoadB(b + d, W::kRow);
#pragma unroll
      for (int n = 0; n < kCount; ++n) {
        cuda::MultiplyAdd<Operand>(
            c[n], Operand::LoadA(a + W::OfBlock(W::OwnBlock(n)) + d, W::kRow), b_d);
      }
    }
  }

  // c [16,kD] += a [16,16] b for 16 rows `b` [token][channel].
  template <int kCount>
  __device__ void Multiply(Accumulators (&c)[W::kBlocks][W::kD / 16], const Operand::A (&a)[kCount],
                           const Element* b) {
#pragma unroll
    for (int d = 0; d < W::kD; d += 16) {
      const auto b_d = Operand::LoadBTransposed(b + d, W::kRow);
#pragma unroll
      for (int n = 0; n < kCount; ++n) cuda::MultiplyAdd<Operand>(c[n][d / 16], a[n], b_d);
    }
  }

  __device__ void Store(const AttentionProblem& p, const Head& head) {
#pragma unroll
    for (int n = 0; n < W::kBlocks; ++n) {
      const std::int64_t first = W::OwnBlock(n) * 16;
      const float kept = p.dropout.scale;
      StoreResult<W::kD>(Rows(p.d_k, head), first, p.seq_len, d_k[n], p.scale * kept,
                         p.scale * kept);
      StoreResult<W::kD>(Rows(p.d_v, head), first, p.seq_len, d_v[n], kept, kept);
    }
  }
};

// dQ of a warp's blocks of queries, from dl^T in shared memory.
template <typename W>
__device__ void StoreQueryGradients(const W& w, const AttentionProblem& p, const Head& head,
                                    int num_blocks) {
  Accumulators d_q[W::kBlocks][W::kD / 16];
#pragma unroll
  for (int n = 0; n < W::kBlocks; ++n) cuda::Clear(d_q[n]);
  // A lane's row of the four 8x8 blocks of the transposed operand, as Operand::LoadATransposed.
  const int row = cuda::LaneId() % 8 + cuda::LaneId() / 16 * 8;
  const int half = cuda::LaneId() / 8 % 2;
  const auto add = [&](int key_block, auto begin) {
    constexpr int kBegin = decltype(begin)::value;
    Operand::A d_scores[W::kBlocks];
#pragma unroll
    for (int n = kBegin; n < W::kBlocks; ++n) {
      cuda::LoadMatricesTransposed(d_scores[n].r, w.DScores(key_block, row, W::OwnBlock(n), half));
    }
#pragma unroll
    for (int d = 0; d < W::kD; d += 16) {
      const auto keys = Operand::LoadBTransposed(w.k + W::OfBlock(key_block) + d, W::kRow);
#pragma unroll
      for (int n = kBegin; n < W::kBlocks; ++n) {
        cuda::MultiplyAdd<Operand>(d_q[n][d / 16], d_scores[n], keys);
      }
    }
  };
  // Of blocks past the end, dl^T is whatever was there, and dQ is not stored.
  const int last = min(W::OwnBlock(W::kBlocks - 1), num_blocks - 1);
  int key_block = 0;
  for (; key_block <= min(W::OwnBlock(0), last); ++key_block) {
    add(key_block, std::integral_constant<int, 0>());
  }
  for (; key_block <= last; ++key_block) {
    add(key_block, std::integral_constant<int, W::kBlocks - 1>());
  }
#pragma unroll
  for (int n = 0; n < W::kBlocks; ++n) {
    const float factor = p.scale * p.dropout.scale;
    StoreResult<W::kD>(Rows(p.d_q, head), W::OwnBlock(n) * 16, p.seq_len, d_q[n], factor, factor);
  }
}

// All gradients of one (b, h), a block of threads each. Each warp walks the queries for its keys
// and leaves dl^T in shared memory; after the only barrier it reads the rows of its queries there.
// Sums fp32 in registers, in a fixed order.
template <typename W, bool kDrops>
__global__ void __launch_bounds__(W::kWarps * 32, W::kD* W::kBlocks >= 128 ? 1 : 16 / W::kWarps)
    WholeGradientKernel(const AttentionProblem p) {
  extern __shared__ __align__(16) char shared_bytes[];
  const W w(shared_bytes);
  const Head head(p, blockIdx.x);
  LoadTiles<W, kDrops>(w, p, head);
  const auto num_blocks = static_cast<int>((p.seq_len + 15) / 16);
  {
    KeyGradients<W, kDrops> gradients;
    gradients.Form(w, DropoutDraws<kDrops>(p, head.row), num_blocks, p.scale * kLog2E);
    gradients.Store(p, head);
  }
  __syncthreads();
  StoreQueryGradients(w, p, head, num_blocks);
}

template <typename W, bool kDrops>
cudaError_t LaunchWhole(const AttentionProblem& problem, cudaStream_t stream) {
  return cuda::Launch(WholeGradientKernel<W, kDrops>, problem.batch_size * problem.num_heads,
                      W::kWarps * 32, W::kBytes, stream, problem);
}

}  // namespace

int WholeBackward(const AttentionProblem& problem, CUstream_st* stream) {
  return ForKernel(problem, [&]<int kD, bool kDrops>() {
    if (problem.seq_len <= 64) return LaunchWhole<Whole<kD, 4, 1>, kDrops>(problem, stream);
    if (problem.seq_len <= 128) return LaunchWhole<Whole<kD, 8, 1>, kDrops>(problem, stream);
    if constexpr (kD < 128) {
      if (problem.seq_len <= 256) return LaunchWhole<Whole<kD, 8, 2>, kDrops>(problem, stream);
    }
    return cudaErrorInvalidValue;
  });
}

}  // namespace mixerbench::kernels::softmax_attention
