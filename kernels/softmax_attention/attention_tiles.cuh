// What the kernels of softmax attention share: 64 tokens a tile, 16 a warp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/tiles.cuh"
#include "kernels/softmax_attention/softmax_attention_kernels.h"

namespace mixerbench::kernels::softmax_attention {

using cuda::Accumulators;
using cuda::Sequence;
using Operand = cuda::Bf16Operand;
using Element = Operand::Element;

constexpr int kTile = 64;
constexpr int kThreads = kTile / 16 * 32;
constexpr float kLog2E = 1.4426950408889634f;

inline std::int64_t NumTiles(const AttentionProblem& p) { return (p.seq_len + kTile - 1) / kTile; }

__device__ inline Element* TokenRow(const Sequence& x, const AttentionProblem& p, std::int64_t row,
                                    std::int64_t token) {
  return static_cast<Element*>(x.data) + row / p.num_heads * x.batch_stride +
         row % p.num_heads * x.head_stride + token * x.token_stride;
}

// Copies tokens [first, first + 64) of (b, h) = row; zeros past the end.
template <int kD>
__device__ void CopyTile(Element* tile, const Sequence& x, const AttentionProblem& p,
                         std::int64_t row, std::int64_t first) {
  const auto valid = min(static_cast<std::int64_t>(kTile), p.seq_len - first);
  cuda::CopyRowsAsync<kTile>(tile, TokenRow(x, p, row, first), x.token_stride,
                             static_cast<int>(valid), kD);
}

// Which 16x16 blocks of a warp's 16x64 scores hold visible pairs. A tile of other tokens than the
// warp's own has visible pairs only.
template <bool kIsDiagonal>
struct VisibleBlocks {
  int begin, end;  // visible or partly so, used for the diagonal tile alone
  __device__ bool Has(int block) const { return !kIsDiagonal || (block >= begin && block < end); }
};

// c [16,64] += a [16,kD] b^T for 16 rows of tile `a` and the tile `b`, both [token][channel].
template <int kD, bool kIsDiagonal>
__device__ void MultiplyTransposed(Accumulators (&c)[kTile / 16], const Element* a,
                                   const Element* b, const VisibleBlocks<kIsDiagonal>& blocks) {
  constexpr int kRow = cuda::PaddedRow(kD);
#pragma unroll
  for (int d = 0; d < kD; d += 16) {
    const auto a_d = Operand::LoadA(a + d, kRow);
#pragma unroll
    for (int j = 0; j < kTile / 16; ++j) {
      if (!blocks.Has(j)) continue;
      cuda::MultiplyAdd<Operand>(c[j], a_d, Operand::LoadB(b + j * 16 * kRow + d, kRow));
    }
  }
}

// c [16,kD] += a [16,64] b for a tile `b` [token][channel].
template <int kD, bool kIsDiagonal>
__device__ void Multiply(Accumulators (&c)[kD / 16], const Accumulators (&a)[kTile / 16],
                         const Element* b, const VisibleBlocks<kIsDiagonal>& blocks) {
  constexpr int kRow = cuda::PaddedRow(kD);
#pragma unroll
  for (int j = 0; j < kTile / 16; ++j) {
    if (!blocks.Has(j)) continue;
    const auto a_j = cuda::ToOperand<Operand>(a[j]);
#pragma unroll
    for (int d = 0; d < kD; d += 16) {
      cuda::MultiplyAdd<Operand>(c[d / 16], a_j,
                                 Operand::LoadBTransposed(b + j * 16 * kRow + d, kRow));
    }
  }
}

// 2^x to 2 units in the last place; 0 for -infinity and where the result would be denormal.
__device__ inline float Exp2(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

// Sum or maximum over the four lanes that share a row of a block.
__device__ inline float RowSum(float x) {
  x += cuda::ShuffleXor(x, 1);
  return x + cuda::ShuffleXor(x, 2);
}
__device__ inline float RowMax(float x) {
  x = fmaxf(x, cuda::ShuffleXor(x, 1));
  return fmaxf(x, cuda::ShuffleXor(x, 2));
}

// 16 rows of a result, those of this warp, times a factor for rows g and g + 8.
template <int kD>
__device__ void StoreResult(const Sequence& x, const AttentionProblem& p, std::int64_t row,
                            std::int64_t first, Accumulators (&c)[kD / 16], float upper,
                            float lower) {
  const auto valid = min(static_cast<std::int64_t>(16), p.seq_len - first);
#pragma unroll
  for (int d = 0; d < kD / 16; ++d) {
#pragma unroll
    for (int e = 0; e < 8; ++e) c[d][e / 4][e % 4] *= e % 4 < 2 ? upper : lower;
    cuda::StoreRows(TokenRow(x, p, row, first) + 16 * d, static_cast<int>(x.token_stride),
                    static_cast<int>(valid), c[d]);
  }
}

// Calls launch.template operator()<head_dim>(); launch returns a cudaError_t.
template <typename Launch>
cudaError_t ForHeadDim(std::int64_t head_dim, const Launch& launch) {
  switch (head_dim) {
    case 16:
      return launch.template operator()<16>();
    case 32:
      return launch.template operator()<32>();
    case 64:
      return launch.template operator()<64>();
    case 128:
      return launch.template operator()<128>();
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace mixerbench::kernels::softmax_attention
