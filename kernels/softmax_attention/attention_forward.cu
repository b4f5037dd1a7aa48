// SPDX-License-Identifier: Apache-2.0
#include "kernels/softmax_attention/attention_tiles.cuh"

namespace mixerbench::kernels::softmax_attention {
namespace {

// Block: 64 queries of one (b, h), a warp 16 of them; grid B H tiles, tiles with many keys first.
// It walks the tiles of keys up to its own, the next one arrives during the products of this one.
// Running maximum and sum, scores and outputs fp32 in registers. Shared memory: q, two stages of k
// and v. Deterministic.
template <int kD>
__global__ void __launch_bounds__(kThreads) ForwardKernel(const AttentionProblem p) {
  constexpr int kTileSize = kTile * cuda::PaddedRow(kD);
  extern __shared__ __align__(16) char shared_bytes[];
  Element* const q_tile = reinterpret_cast<Element*>(shared_bytes);
  Element* const stages = q_tile + kTileSize;  // k, v, k, v

  const std::int64_t num_tiles = (p.seq_len + kTile - 1) / kTile;
  const std::int64_t num_rows = p.batch_size * p.num_heads;
  const std::int64_t tile = num_tiles - 1 - blockIdx.x / num_rows;
  const std::int64_t row = blockIdx.x % num_rows;  // b H + h
  const int warp = cuda::WarpId();
  const auto load = [&](std::int64_t j) {
    Element* stage = stages + j % 2 * 2 * kTileSize;
    CopyTile<kD>(stage, p.k, p, row, j * kTile);
    CopyTile<kD>(stage + kTileSize, p.v, p, row, j * kTile);
    cuda::CommitCopies();
  };
  CopyTile<kD>(q_tile, p.q, p, row, tile * kTile);
  load(0);

  const float scale = p.scale * kLog2E;  // of exponents of two
  Accumulators o[kD / 16];
  cuda::Clear(o);
  float maximum[2] = {-INFINITY, -INFINITY};  // of rows g and g + 8, times scale
  float denominator[2] = {0, 0};              // this lane's part
  const auto visit = [&](std::int64_t j, auto is_diagonal) {
    constexpr bool kIsDiagonal = decltype(is_diagonal)::value;
    cuda::WaitForBlockCopies();
    if (!kIsDiagonal) load(j + 1);
    const Element* k_tile = stages + j % 2 * 2 * kTileSize;
    const VisibleBlocks<kIsDiagonal> blocks = {0, warp + 1};

    Accumulators scores[kTile / 16];
    cuda::Clear(scores);
    MultiplyTransposed<kD>(scores, q_tile + warp * 16 * cuda::PaddedRow(kD), k_tile, blocks);
    float tile_maximum[2] = {-INFINITY, -INFINITY};
#pragma unroll
    for (int b = 0; b < kTile / 16; ++b) {
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        float& x = scores[b][e / 4][e % 4];
        const bool hidden = kIsDiagonal && b * 16 + cuda::BlockColumn(e / 4, e % 4) >
                                               warp * 16 + cuda::BlockRow(e % 4);
        x = hidden ? -INFINITY : x * scale;
        tile_maximum[e % 4 / 2] = fmaxf(tile_maximum[e % 4 / 2], x);
      }
    }
    float rescale[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float next = fmaxf(maximum[i], RowMax(tile_maximum[i]));  // finite: a key is visible
      rescale[i] = Exp2(maximum[i] - next);
      maximum[i] = next;
      denominator[i] *= rescale[i];
    }
#pragma unroll
    for (int b = 0; b < kTile / 16; ++b) {
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        float& x = scores[b][e / 4][e % 4];
        x = Exp2(x - maximum[e % 4 / 2]);
        denominator[e % 4 / 2] += x;
      }
    }
#pragma unroll
    for (int d = 0; d < kD / 16; ++d) {
#pragma unroll
      for (int e = 0; e < 8; ++e) o[d][e / 4][e % 4] *= rescale[e % 4 / 2];
    }
    Multiply<kD>(o, scores, k_tile + kTileSize, blocks);
  };
  for (std::int64_t j = 0; j < tile; ++j) visit(j, std::false_type());
  visit(tile, std::true_type());

  const std::int64_t first = tile * kTile + warp * 16;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    denominator[i] = RowSum(denominator[i]);
    const std::int64_t token = first + cuda::BlockRow(2 * i);
    if (cuda::LaneId() % 4 == 0 && token < p.seq_len) {
      p.log_denominators[row * p.seq_len + token] = maximum[i] + log2f(denominator[i]);
    }
  }
  StoreResult<kD>(p.o, p, row, first, o, 1 / denominator[0], 1 / denominator[1]);
}

}  // namespace

int AttentionForward(const AttentionProblem& problem, CUstream_st* stream) {
  return ForHeadDim(problem.head_dim, [&]<int kD>() {
    return cuda::Launch(ForwardKernel<kD>,
                        problem.batch_size * problem.num_heads * NumTiles(problem), kThreads,
                        5 * kTile * cuda::PaddedRow(kD) * sizeof(Element), stream, problem);
  });
}

}  // namespace mixerbench::kernels::softmax_attention
