// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>

#include "kernels/softmax_attention/attention_tiles.cuh"
#include "kernels/softmax_attention/softmax_attention_plan.h"

namespace mixerbench::kernels::softmax_attention {
namespace {

// A block of threads that holds all of one (b, h): q, k, v, dO, log denominators and delta of
// kTokens tokens, and dl^T of one tile of queries.
template <int kHeadDim, int kNumWarps, int kNumKeyBlocks>
struct Shape {
  static constexpr int kD = kHeadDim;
  static constexpr int kWarps = kNumWarps;
  static constexpr int kKeyBlocks = kNumKeyBlocks;  // of 16 keys, of each warp
  static constexpr int kTokens = kWarps * kKeyBlocks * 16;
  static constexpr int kTiles = kTokens / kTile;
  static constexpr int kRow = cuda::PaddedRow(kD);
  static constexpr int kMatrix = kTokens * kRow;
  static constexpr int kScoreRow = cuda::PaddedRow(kTile);
  static constexpr std::int64_t kBytes =
      (4 * kMatrix + kTokens * kScoreRow) * sizeof(Element) + 2 * kTokens * sizeof(float);
  static_assert(kBytes == WholeBackwardBytes(kTokens, kD));

  Element *q, *k, *v, *d_o;
  Element* d_scores;  // [key][query of the tile]
  float *log_denominators, *deltas;

  __device__ explicit Shape(void* shared)
      : q(static_cast<Element*>(shared)),
        k(q + kMatrix),
        v(k + kMatrix),
        d_o(v + kMatrix),
        d_scores(d_o + kMatrix),
        log_denominators(reinterpret_cast<float*>(d_scores + kTokens * kScoreRow)),
        deltas(log_denominators + kTokens) {}

  __device__ Element* DScores(int key_block) const { return d_scores + key_block * 16 * kScoreRow; }
  __device__ static int OfBlock(int block) { return block * 16 * kRow; }
  __device__ static void Copy(Element* matrix, const Rows& rows, int tile, std::int64_t seq_len) {
    CopyTile<kD, kWarps * 32>(matrix + OfBlock(tile * 4), rows, tile * kTile, seq_len);
  }
};

// Starts the copies of a tile.
template <typename S>
__device__ void CopyTile(const S& s, const AttentionProblem& p, const Head& head, int tile) {
  S::Copy(s.q, Rows(p.q, head), tile, p.seq_len);
  S::Copy(s.k, Rows(p.k, head), tile, p.seq_len);
  S::Copy(s.v, Rows(p.v, head), tile, p.seq_len);
  S::Copy(s.d_o, Rows(p.d_o, head), tile, p.seq_len);
  if (threadIdx.x < kTile) {
    const int token = tile * kTile + static_cast<int>(threadIdx.x);
    const bool valid = token < p.seq_len;
    cuda::CopyAsync4(s.log_denominators + token,
                     p.log_denominators + head.row * p.seq_len + (valid ? token : 0), valid);
  }
}

// delta_i = <dO_i, o_i> of a tile: neighbouring lanes share a token. o is read ahead of its use.
template <typename S>
struct Delta {
  static constexpr int kLanes = S::kWarps / 2;
  static constexpr int kWords = S::kD / (4 * kLanes);
  uint2 words[kWords];

  __device__ static int Token() { return static_cast<int>(threadIdx.x) / kLanes; }
  __device__ static int Channel(int word) {
    return (static_cast<int>(threadIdx.x) % kLanes + word * kLanes) * 4;
  }
  __device__ void Load(const AttentionProblem& p, const Head& head, int tile) {
    const std::int64_t token = tile * kTile + Token();
    const Element* const row = Rows(p.o, head).Token(min(token, p.seq_len - 1));
#pragma unroll
    for (int n = 0; n < kWords; ++n) {
      words[n] = *reinterpret_cast<const uint2*>(row + Channel(n));
    }
  }
  __device__ void Store(const S& s, int tile) const {
    const int token = tile * kTile + Token();
    const Element* const row = s.d_o + token * S::kRow;
    float sum = 0;
#pragma unroll
    for (int n = 0; n < kWords; ++n) {
      const uint2 d_o = *reinterpret_cast<const uint2*>(row + Channel(n));
      sum += cuda::LowBf16(words[n].x) * cuda::LowBf16(d_o.x) +
             cuda::HighBf16(words[n].x) * cuda::HighBf16(d_o.x) +
             cuda::LowBf16(words[n].y) * cuda::LowBf16(d_o.y) +
             cuda::HighBf16(words[n].y) * cuda::HighBf16(d_o.y);
    }
#pragma unroll
    for (int lanes = 1; lanes < kLanes; lanes *= 2) sum += cuda::ShuffleXor(sum, lanes);
    if (Channel(0) == 0) s.deltas[token] = sum;
  }
};

// dK and dV of a warp's blocks of keys, w and w + kWarps: every tile of queries has work for all
// multiprocessor partitions.
template <typename S>
struct KeyGradients {
  Accumulators d_k[S::kKeyBlocks][S::kD / 16];
  Accumulators d_v[S::kKeyBlocks][S::kD / 16];

  __device__ static int KeyBlock(int n) { return cuda::WarpId() + n * S::kWarps; }

  __device__ void Reset() {
#pragma unroll
    for (int n = 0; n < S::kKeyBlocks; ++n) {
      cuda::Clear(d_k[n]);
      cuda::Clear(d_v[n]);
    }
  }

  // Adds what a tile of queries contributes, and leaves dl^T of the tile in shared memory.
  __device__ void VisitTile(const S& s, int tile, float scale) {
#pragma unroll 1
    for (int block = 4 * tile; block < 4 * tile + 4; ++block) {
      if (KeyBlock(0) > block) continue;
      if (S::kKeyBlocks == 1 || KeyBlock(1) > block) {
        Visit<1>(s, block, scale);
      } else {
        Visit<S::kKeyBlocks>(s, block, scale);
      }
    }
  }

  // 16 queries and the first kCount of this warp's blocks of keys, which they see. Scores are
  // transposed, [key, query], so that they are left operands of both gradients.
  template <int kCount>
  __device__ void Visit(const S& s, int query_block, float scale) {
    const Element* const q = s.q + S::OfBlock(query_block);
    const Element* const d_o = s.d_o + S::OfBlock(query_block);
    float log_denominator[2][2];
    Accumulators weights[kCount];    // P^T, then dl^T
    Accumulators d_weights[kCount];  // dP^T - delta
    cuda::Clear(weights);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int query = query_block * 16 + cuda::BlockColumn(h, 0);
      const float2 lse = *reinterpret_cast<const float2*>(s.log_denominators + query);
      const float2 delta = *reinterpret_cast<const float2*>(s.deltas + query);
      log_denominator[h][0] = lse.x, log_denominator[h][1] = lse.y;
#pragma unroll
      for (int n = 0; n < kCount; ++n) {
        d_weights[n][h][0] = d_weights[n][h][2] = -delta.x;
        d_weights[n][h][1] = d_weights[n][h][3] = -delta.y;
      }
    }
    MultiplyTransposed<kCount>(weights, s.k, q);
    MultiplyTransposed<kCount>(d_weights, s.v, d_o);
    Operand::A operands[kCount];
#pragma unroll
    for (int n = 0; n < kCount; ++n) {
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        float& x = weights[n][e / 4][e % 4];
        x = cuda::Exp2(x * scale - log_denominator[e / 4][e % 2]);
      }
      if (KeyBlock(n) == query_block) {
#pragma unroll
        for (int e = 0; e < 8; ++e) {
          const bool hidden = cuda::BlockColumn(e / 4, e % 4) < cuda::BlockRow(e % 4);
          if (hidden) weights[n][e / 4][e % 4] = 0;
        }
      }
      operands[n] = cuda::ToOperand<Operand>(weights[n]);
    }
    Multiply<kCount>(d_v, operands, d_o);
#pragma unroll
    for (int n = 0; n < kCount; ++n) {
#pragma unroll
      for (int e = 0; e < 8; ++e) weights[n][e / 4][e % 4] *= d_weights[n][e / 4][e % 4];
      operands[n] = cuda::ToOperand<Operand>(weights[n]);
      // The operand's words: keys g and g + 8 of queries 2t and 2t + 1, then of 2t + 8 and 2t + 9.
      Element* const block = s.DScores(KeyBlock(n)) + query_block % 4 * 16;
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        Element* const to =
            block + cuda::BlockRow(w % 2 * 2) * S::kScoreRow + cuda::BlockColumn(w / 2, 0);
        *reinterpret_cast<std::uint32_t*>(to) = operands[n].r[w];
      }
    }
    Multiply<kCount>(d_k, operands, q);
  }

  // c [16,16] += a b^T for rows of this warp's keys in `a` and 16 rows `b`, both [token][channel].
  template <int kCount>
  __device__ void MultiplyTransposed(Accumulators (&c)[kCount], const Element* a,
                                     const Element* b) {
#pragma unroll
    for (int d = 0; d < S::kD; d += 16) {
      const auto b_d = Operand::LoadB(b + d, S::kRow);
#pragma unroll
      for (int n = 0; n < kCount; ++n) {
        cuda::MultiplyAdd<Operand>(c[n], Operand::LoadA(a + S::OfBlock(KeyBlock(n)) + d, S::kRow),
                                   b_d);
      }
    }
  }

  // c [16,kD] += a [16,16] b for 16 rows `b` [token][channel].
  template <int kCount>
  __device__ void Multiply(Accumulators (&c)[S::kKeyBlocks][S::kD / 16],
                           const Operand::A (&a)[kCount], const Element* b) {
#pragma unroll
    for (int d = 0; d < S::kD; d += 16) {
      const auto b_d = Operand::LoadBTransposed(b + d, S::kRow);
#pragma unroll
      for (int n = 0; n < kCount; ++n) cuda::MultiplyAdd<Operand>(c[n][d / 16], a[n], b_d);
    }
  }

  __device__ void Store(const AttentionProblem& p, const Head& head) {
#pragma unroll
    for (int n = 0; n < S::kKeyBlocks; ++n) {
      const std::int64_t first = KeyBlock(n) * 16;
      StoreResult<S::kD>(Rows(p.d_k, head), first, p.seq_len, d_k[n], p.scale, p.scale);
      StoreResult<S::kD>(Rows(p.d_v, head), first, p.seq_len, d_v[n], 1, 1);
    }
  }
};

// dQ of a tile of queries, from dl^T in shared memory; each warp forms kRows x kColumns blocks of
// 16x16, if there are enough.
template <typename S>
__device__ void StoreQueryGradients(const S& s, const AttentionProblem& p, const Head& head,
                                    int tile) {
  constexpr int kUnits = std::max(1, S::kD / 4 / S::kWarps);
  constexpr int kRows = kUnits > 1 ? 2 : 1;
  constexpr int kColumns = kUnits / kRows;
  constexpr int kColumnGroups = S::kD / 16 / kColumns;
  const int first_row = cuda::WarpId() / kColumnGroups * kRows;
  const int first_column = cuda::WarpId() % kColumnGroups * kColumns * 16;
  if (first_row >= kTile / 16) return;
  Accumulators d_q[kRows][kColumns];
#pragma unroll
  for (int r = 0; r < kRows; ++r) cuda::Clear(d_q[r]);
  const int first_block = tile * 4 + first_row;
  // Rows from `begin` on see the block of keys.
  const auto add = [&](int key_block, int begin) {
    Operand::B keys[kColumns];
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      keys[c] =
          Operand::LoadBTransposed(s.k + S::OfBlock(key_block) + first_column + c * 16, S::kRow);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (r < begin) continue;
      const auto d_scores =
          Operand::LoadATransposed(s.DScores(key_block) + (first_row + r) * 16, S::kScoreRow);
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        cuda::MultiplyAdd<Operand>(d_q[r][c], d_scores, keys[c]);
      }
    }
  };
#pragma unroll 4
  for (int key_block = 0; key_block <= first_block; ++key_block) add(key_block, 0);
#pragma unroll
  for (int r = 1; r < kRows; ++r) add(first_block + r, r);

  const Rows rows(p.d_q, head);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const std::int64_t first = (first_block + r) * 16;
    const auto valid = static_cast<int>(min(static_cast<std::int64_t>(16), p.seq_len - first));
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
#pragma unroll
      for (int e = 0; e < 8; ++e) d_q[r][c][e / 4][e % 4] *= p.scale;
      cuda::StoreRows(rows.Token(first) + first_column + c * 16, static_cast<int>(rows.stride),
                      valid, d_q[r][c]);
    }
  }
}

// All gradients of one (b, h), a block of threads each. For a tile of queries the warps form P, dP
// and dl once and add to dK and dV in their registers; dl goes through shared memory and becomes dQ
// of the tile. Later tiles arrive in the meantime. Sums fp32 in registers, in a fixed order.
template <typename S>
__global__ void __launch_bounds__(S::kWarps * 32, S::kD* S::kKeyBlocks >= 128 ? 1 : 16 / S::kWarps)
    WholeGradientKernel(const AttentionProblem p) {
  extern __shared__ __align__(16) char shared_bytes[];
  const S s(shared_bytes);
  const Head head(p, blockIdx.x);
  const auto num_tiles = static_cast<int>(NumTiles(p));
#pragma unroll 1
  for (int tile = 0; tile < S::kTiles; ++tile) {
    if (tile < num_tiles) CopyTile(s, p, head, tile);
    cuda::CommitCopies();
  }
  const float scale = p.scale * kLog2E;
  KeyGradients<S> gradients;
  gradients.Reset();
  Delta<S> delta;
  delta.Load(p, head, 0);
  cuda::WaitForCopies<S::kTiles - 1>();
  __syncthreads();
  delta.Store(s, 0);
#pragma unroll 1
  for (int tile = 0; tile < num_tiles; ++tile) {
    __syncthreads();  // delta is there, and dl of the tile before was read
    gradients.VisitTile(s, tile, scale);
    cuda::CommitCopies();  // an empty group, so that the next tile's are kTiles - 1 before the last
    cuda::WaitForCopies<S::kTiles - 1>();
    __syncthreads();
    const bool has_next = tile + 1 < num_tiles;
    if (has_next) delta.Load(p, head, tile + 1);
    StoreQueryGradients(s, p, head, tile);
    if (has_next) delta.Store(s, tile + 1);
  }
  gradients.Store(p, head);
}

template <typename S>
cudaError_t LaunchWhole(const AttentionProblem& problem, cudaStream_t stream) {
  return cuda::Launch(WholeGradientKernel<S>, problem.batch_size * problem.num_heads,
                      S::kWarps * 32, S::kBytes, stream, problem);
}

}  // namespace

int WholeBackward(const AttentionProblem& problem, CUstream_st* stream) {
  return ForHeadDim(problem.head_dim, [&]<int kD>() {
    if (problem.seq_len <= 64) return LaunchWhole<Shape<kD, 4, 1>>(problem, stream);
    if (problem.seq_len <= 128) return LaunchWhole<Shape<kD, 8, 1>>(problem, stream);
    if constexpr (kD < 128) {
      if (problem.seq_len <= 256) return LaunchWhole<Shape<kD, 8, 2>>(problem, stream);
    }
    return cudaErrorInvalidValue;
  });
}

}  // namespace mixerbench::kernels::softmax_attention
