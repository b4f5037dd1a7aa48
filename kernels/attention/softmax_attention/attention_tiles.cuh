// What the kernels of softmax attention share: 64 tokens a tile, 16 a warp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "kernels/attention/softmax_attention/attention_dropout.cuh"
#include "kernels/attention/softmax_attention/softmax_attention_kernels.h"
#include "kernels/device/launch.cuh"
#include "kernels/device/tiles.cuh"

namespace mixerbench::kernels::softmax_attention {

using device::Accumulators;
using device::Sequence;
using Operand = device::Bf16Operand;
using Element = Operand::Element;

constexpr int kTile = 64;
constexpr int kThreads = kTile / 16 * 32;
constexpr float kLog2E = 1.4426950408889634f;

__host__ __device__ inline std::int64_t NumTiles(const AttentionProblem& p) {
  return (p.seq_len + kTile - 1) / kTile;
}

// Which (b, h) a CTA works on.
struct Head {
  std::int64_t batch, head;
  std::int64_t row;  // b H + h

  __device__ Head(const AttentionProblem& p, unsigned index)
      : batch(index / static_cast<unsigned>(p.num_heads)),
        head(index % static_cast<unsigned>(p.num_heads)),
        row(index) {}
};

// The tokens of one (b, h).
struct Rows {
  Element* data;
  std::int64_t stride;  // elements between tokens

  __device__ Rows(const Sequence& x, const Head& at)
      : data(static_cast<Element*>(x.data) + at.batch * x.batch_stride + at.head * x.head_stride),
        stride(x.token_stride) {}
  __device__ Element* Token(std::int64_t token) const { return data + token * stride; }
};

// The block copies tokens [first, first + 64) into rows of PaddedRow(kD); zeros past the end.
template <int kD, int kNumThreads>
__device__ void CopyTile(Element* tile, const Rows& rows, std::int64_t first,
                         std::int64_t seq_len) {
  constexpr int kVectors = kD / 8;  // of 16 bytes in a row
  constexpr int kRowsPerStep = kNumThreads / kVectors;
  const int thread = static_cast<int>(threadIdx.x);
  const int row = thread / kVectors;
  const int column = thread % kVectors * 8;
  const auto num_valid = static_cast<int>(min(static_cast<std::int64_t>(kTile), seq_len - first));
  const Element* const legal = rows.Token(first) + column;  // for copies that read nothing
  const Element* source = legal + row * rows.stride;
  Element* const to = tile + row * device::PaddedRow(kD) + column;
#pragma unroll
  for (int step = 0; step < kTile; step += kRowsPerStep, source += kRowsPerStep * rows.stride) {
    if (kRowsPerStep > kTile && row >= kTile) continue;
    const bool valid = step + row < num_valid;
    device::CopyAsync16(to + step * device::PaddedRow(kD), valid ? source : legal, valid);
  }
}

// Arrives at a barrier (device::InitBarrier counts it) when this thread's copies so far have.
__device__ inline void ArriveAfterCopies(std::uint64_t* barrier) {
  asm volatile(
      "cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(device::SharedAddress(barrier))
      : "memory");
}

// Which 16x16 blocks of a warp's scores hold visible pairs. A tile of other tokens than the
// warp's own has visible pairs only.
template <bool kIsDiagonal>
struct VisibleBlocks {
  int begin, end;  // visible or partly so, used for the diagonal tile alone
  __device__ bool Has(int block) const { return !kIsDiagonal || (block >= begin && block < end); }
};

// c [16,16 kBlocks] += a [16,kD] b^T for 16 rows `a` and 16 kBlocks rows `b`, both
// [token][channel].
template <int kD, int kBlocks, bool kIsDiagonal>
__device__ void MultiplyTransposed(Accumulators (&c)[kBlocks], const Element* a, const Element* b,
                                   const VisibleBlocks<kIsDiagonal>& blocks) {
  constexpr int kRow = device::PaddedRow(kD);
#pragma unroll
  for (int d = 0; d < kD; d += 16) {
    const auto a_d = Operand::LoadA(a + d, kRow);
#pragma unroll
    for (int j = 0; j < kBlocks; ++j) {
      if (!blocks.Has(j)) continue;
      device::MultiplyAdd<Operand>(c[j], a_d, Operand::LoadB(b + j * 16 * kRow + d, kRow));
    }
  }
}

// c [16,kD] += a [16,16 kBlocks] b for 16 kBlocks rows `b` [token][channel].
template <int kD, int kBlocks, bool kIsDiagonal>
__device__ void Multiply(Accumulators (&c)[kD / 16], const Accumulators (&a)[kBlocks],
                         const Element* b, const VisibleBlocks<kIsDiagonal>& blocks) {
  constexpr int kRow = device::PaddedRow(kD);
#pragma unroll
  for (int j = 0; j < kBlocks; ++j) {
    if (!blocks.Has(j)) continue;
    const auto a_j = device::ToOperand<Operand>(a[j]);
#pragma unroll
    for (int d = 0; d < kD; d += 16) {
      device::MultiplyAdd<Operand>(c[d / 16], a_j,
                                   Operand::LoadBTransposed(b + j * 16 * kRow + d, kRow));
    }
  }
}

// Sum or maximum over the four lanes that share a row of a block.
__device__ inline float RowSum(float x) {
  x += device::ShuffleXor(x, 1);
  return x + device::ShuffleXor(x, 2);
}
__device__ inline float RowMax(float x) {
  x = fmaxf(x, device::ShuffleXor(x, 1));
  return fmaxf(x, device::ShuffleXor(x, 2));
}

// 16 rows of a result, those of this warp, times a factor for rows g and g + 8.
template <int kD>
__device__ void StoreResult(const Rows& rows, std::int64_t first, std::int64_t seq_len,
                            Accumulators (&c)[kD / 16], float upper, float lower) {
  const auto valid = static_cast<int>(min(static_cast<std::int64_t>(16), seq_len - first));
#pragma unroll
  for (int d = 0; d < kD / 16; ++d) {
#pragma unroll
    for (int e = 0; e < 8; ++e) c[d][e / 4][e % 4] *= e % 4 < 2 ? upper : lower;
    device::StoreRows(rows.Token(first) + 16 * d, static_cast<int>(rows.stride), valid, c[d]);
  }
}

// Calls launch.template operator()<head_dim, whether weights are dropped, whether scores have a
// decay or a window>(); launch returns a cudaError_t.
template <typename Launch>
cudaError_t ForKernel(const AttentionProblem& p, const Launch& launch) {
  const auto for_terms = [&]<int kD, bool kDrops>() {
    return p.has_terms() ? launch.template operator()<kD, kDrops, true>()
                         : launch.template operator()<kD, kDrops, false>();
  };
  const auto for_dropout = [&]<int kD>() {
    return p.dropout.threshold == 0 ? for_terms.template operator()<kD, false>()
                                    : for_terms.template operator()<kD, true>();
  };
  switch (p.head_dim) {
    case 16:
      return for_dropout.template operator()<16>();
    case 32:
      return for_dropout.template operator()<32>();
    case 64:
      return for_dropout.template operator()<64>();
    case 128:
      return for_dropout.template operator()<128>();
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace mixerbench::kernels::softmax_attention
