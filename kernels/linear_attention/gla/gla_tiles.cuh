// Tiles of the fused plan: rows in shared memory as operands of products, and rows of one (b, h) in
// device memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "kernels/device/tiles.cuh"
#include "kernels/linear_attention/gla/gla_kernels.h"
#include "kernels/linear_attention/gla/gla_layout.h"

namespace mixerbench::kernels::gla {

using device::Accumulators;
using device::BlockColumn;
using device::BlockRow;
using device::LaneId;
using Left = device::Bf16Operand::A;
using Right = device::Bf16Operand::B;

// Rows of kColumns elements in shared memory without padding: groups of 16 bytes are exchanged
// inside a row, so that the accesses below are free of bank conflicts. Blocks of 16 by 16 begin at
// multiples of 16; where a lane's part of them lies differs by constants alone.
template <typename Element, int kColumns>
struct SwizzledRows {
  static constexpr int kRowBytes = kColumns * static_cast<int>(sizeof(Element));
  static constexpr int kGroups = kRowBytes / 16;

  char* data;

  // What the byte of a row is exchanged by; the same for rows 8 apart. Matrix loads take 8 rows of
  // one group, lanes that read pairs of floats 4 rows of two groups.
  static __device__ int Exchange(int row) {
    if constexpr (sizeof(Element) == 4) return (kGroups >= 8 ? row * 2 & 6 : row & 2) * 16;
    return (kGroups >= 8 ? row & 7 : kGroups == 4 ? row >> 1 & 3 : row >> 2 & 1) * 16;
  }
  __device__ char* At(int row, int column) const {
    return data + row * kRowBytes + (column * static_cast<int>(sizeof(Element)) ^ Exchange(row));
  }
  // Element (lane_row, lane_column) of the block at (row, column).
  __device__ char* InBlock(int row, int column, int lane_row, int lane_column) const {
    constexpr int kSize = sizeof(Element);
    const int lane = lane_row * kRowBytes + (lane_column * kSize ^ Exchange(lane_row));
    return data + row * kRowBytes + (lane ^ column * kSize);
  }
  // The pair of elements at BlockRow(2 i) and BlockColumn(h, 0) of the block at (row, column).
  __device__ char* Pair(int row, int column, int h, int i) const {
    return InBlock(row + 8 * i, column + 8 * h, LaneId() / 4, LaneId() % 4 * 2);
  }
};

// bf16 operands of products: blocks of 16x16 at (row, column); names as in operand.cuh.
template <int kColumns>
struct OperandRows : SwizzledRows<__nv_bfloat16, kColumns> {
  __device__ Left LoadA(int row, int column) const {
    Left a;
    device::LoadMatrices(a.r, this->InBlock(row, column, LaneId() % 16, LaneId() / 16 * 8));
    return a;
  }
  __device__ Left LoadATransposed(int row, int column) const {
    Left a;
    device::LoadMatricesTransposed(
        a.r, this->InBlock(row, column, LaneId() % 8 + LaneId() / 16 * 8, LaneId() / 8 % 2 * 8));
    return a;
  }
  __device__ Right LoadB(int row, int column) const {
    std::uint32_t r[4];
    device::LoadMatrices(
        r, this->InBlock(row, column, LaneId() % 8 + LaneId() / 16 * 8, LaneId() / 8 % 2 * 8));
    return {{{r[0], r[1]}, {r[2], r[3]}}};
  }
  __device__ Right LoadBTransposed(int row, int column) const {
    std::uint32_t r[4];
    device::LoadMatricesTransposed(r, this->InBlock(row, column, LaneId() % 16, LaneId() / 16 * 8));
    return {{{r[0], r[1]}, {r[2], r[3]}}};
  }
  __device__ void Store(int row, int column, const Left& a) const {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        *reinterpret_cast<std::uint32_t*>(this->Pair(row, column, h, i)) = a.r[i + 2 * h];
      }
    }
  }
};

template <int kColumns>
using GateRows = SwizzledRows<float, kColumns>;

__device__ inline void MultiplyAdd(Accumulators& c, const Left& a, const Right& b) {
  device::MultiplyAdd<device::Bf16Operand>(c, a, b);
}
__device__ inline Left ToOperand(const Accumulators& c) {
  return device::ToOperand<device::Bf16Operand>(c);
}

// sum += a ∘ b
__device__ inline void AddProduct(Accumulators& sum, const Accumulators& a, const Accumulators& b) {
#pragma unroll
  for (int e = 0; e < 8; ++e) sum[e / 4][e % 4] += a[e / 4][e % 4] * b[e / 4][e % 4];
}

// sum -= a ∘ b
__device__ inline void SubtractProduct(Accumulators& sum, const Accumulators& a,
                                       const Accumulators& b) {
#pragma unroll
  for (int e = 0; e < 8; ++e) sum[e / 4][e % 4] -= a[e / 4][e % 4] * b[e / 4][e % 4];
}

__device__ inline void Multiply(Accumulators& a, const Accumulators& b) {
#pragma unroll
  for (int e = 0; e < 8; ++e) a[e / 4][e % 4] *= b[e / 4][e % 4];
}

// a ∘ factors
__device__ inline Left Scaled(const Left& a, const Accumulators& factors) {
  Left result;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      result.r[i + 2 * h] =
          device::PackBf16(device::LowBf16(a.r[i + 2 * h]) * factors[h][2 * i],
                           device::HighBf16(a.r[i + 2 * h]) * factors[h][2 * i + 1]);
    }
  }
  return result;
}

// The same elements as the right operand whose columns are the rows of `a`.
__device__ inline Right RowsAsColumns(const Left& a) {
  return {{{a.r[0], a.r[2]}, {a.r[1], a.r[3]}}};
}

__device__ inline std::uint32_t Transposed(std::uint32_t x) {
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(x));
  return x;
}
// The same elements as the right operand whose depth are the rows of `a`.
__device__ inline Right RowsAsDepth(const Left& a) {
  return {{{Transposed(a.r[0]), Transposed(a.r[1])}, {Transposed(a.r[2]), Transposed(a.r[3])}}};
}
__device__ inline Left TransposedOperand(const Left& a) {
  return {{Transposed(a.r[0]), Transposed(a.r[2]), Transposed(a.r[1]), Transposed(a.r[3])}};
}

// From one lane, so that the compiler knows it to be uniform.
__device__ inline int UniformWarpId() { return __shfl_sync(~0u, device::WarpId(), 0); }

// Which (b, h) a CTA owns.
struct Head {
  unsigned batch, head;
  __device__ explicit Head(const FusedProblem& p)
      : batch(blockIdx.x / static_cast<unsigned>(p.num_heads)),
        head(blockIdx.x - batch * static_cast<unsigned>(p.num_heads)) {}
};

// Its rows.
template <typename Element>
struct HeadSequence {
  Element* data;
  int stride;

  __device__ HeadSequence(const device::Sequence& s, const Head& at)
      : data(static_cast<Element*>(s.data) + at.batch * s.batch_stride + at.head * s.head_stride),
        stride(static_cast<int>(s.token_stride)) {}

  __device__ Element* At(int token) const {
    return data + static_cast<std::int64_t>(token) * stride;
  }

  // Starts the copy of 16 tokens to rows row.. of a tile, by one warp; zeros past the end.
  template <int kColumns, typename Value>
  __device__ void CopyBlock(const SwizzledRows<Value, kColumns>& tile, int row, int token,
                            int seq_len) const {
    using Tile = SwizzledRows<Value, kColumns>;
    constexpr int kRows = 32 / Tile::kGroups;
    constexpr int kPerGroup = 16 / static_cast<int>(sizeof(Value));
    const int column = LaneId() % Tile::kGroups * kPerGroup;
    const int first = LaneId() / Tile::kGroups;
    const Element* from = At(token + first) + column;
#pragma unroll
    for (int step = 0; step < kFusedBlock; step += kRows, from += kRows * stride) {
      device::CopyAsync16(tile.At(row + first + step, column), from,
                          token + first + step < seq_len);
    }
  }

  // The block of 16 tokens and 16 channels as an operand; zeros past the end.
  __device__ Left Load(int token, int seq_len, int column) const {
    Left a;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int t = token + BlockRow(2 * i);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        a.r[i + 2 * h] =
            t < seq_len
                ? *reinterpret_cast<const std::uint32_t*>(At(t) + column + BlockColumn(h, 0))
                : 0;
      }
    }
    return a;
  }
};

// Calls start(K, V) with the sizes of `p` as integral constants: K of 16, 32 or 64, V of K or 2 K
// up to kMaxFusedValues.
template <typename Start>
int ForFusedDims(const FusedProblem& p, const Start& start) {
  const auto with_keys = [&](auto keys) -> int {
    if (p.value_dim == keys()) return start(keys, keys);
    if constexpr (2 * keys() <= kMaxFusedValues) {
      if (p.value_dim == 2 * keys()) return start(keys, std::integral_constant<int, 2 * keys()>());
    }
    return cudaErrorInvalidValue;
  };
  if (p.key_dim == 16) return with_keys(std::integral_constant<int, 16>());
  if (p.key_dim == 32) return with_keys(std::integral_constant<int, 32>());
  if (p.key_dim == 64) return with_keys(std::integral_constant<int, 64>());
  return cudaErrorInvalidValue;
}

}  // namespace mixerbench::kernels::gla
