// 16x16 blocks of accumulators: products, and stores of a block or its transpose.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/device/operand.cuh"

namespace mixerbench::kernels::device {

__device__ inline int LaneId() { return static_cast<int>(threadIdx.x % 32); }
__device__ inline int WarpId() { return static_cast<int>(threadIdx.x / 32); }

// Elements between the rows of a tile of `columns` in shared memory.
__host__ __device__ constexpr int PaddedRow(int columns) { return columns + kRowPadding; }

// Where a lane's element e of half h of an Accumulators block lies in it.
__device__ inline int BlockRow(int e) { return LaneId() / 4 + e / 2 * 8; }
__device__ inline int BlockColumn(int h, int e) { return 8 * h + 2 * (LaneId() % 4) + e % 2; }

template <int kCount>
__device__ inline void Clear(Accumulators (&c)[kCount]) {
#pragma unroll
  for (int n = 0; n < kCount; ++n) {
#pragma unroll
    for (int e = 0; e < 8; ++e) c[n][e / 4][e % 4] = 0;
  }
}

// c += a b, all [16,16]
template <typename Operand>
__device__ inline void MultiplyAdd(Accumulators& c, const typename Operand::A& a,
                                   const typename Operand::B& b) {
  Operand::Multiply(c[0], a, b, 0);
  Operand::Multiply(c[1], a, b, 1);
}

// A block as the left operand of the next product: it never leaves the registers.
template <typename Operand>
__device__ inline typename Operand::A ToOperand(const Accumulators& c) {
  const Tile x = {{{c[0][0], c[0][1]}, {c[1][0], c[1][1]}},
                  {{c[0][2], c[0][3]}, {c[1][2], c[1][3]}}};
  return Operand::ToA(x);
}

template <typename Operand>
__device__ inline void FromOperand(Accumulators& c, const typename Operand::A& a) {
  Tile x;
  Operand::FromA(x, a);
#pragma unroll
  for (int e = 0; e < 8; ++e) c[e / 4][e % 4] = x[e % 4 / 2][e / 4][e % 2];
}

// 16 bytes from global to shared memory in the background.
__device__ inline void CopyAsync16(void* shared, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(SharedAddress(shared)), "l"(global)
               : "memory");
}

// The block copies kRows rows of `columns` elements into `tile` (rows of PaddedRow(columns)
// elements); those from num_valid on become zeros. Row r lies at source + r * source_stride
// elements. `columns` is a power of two, a row 16 to 512 bytes and 16-byte aligned, the block's
// size a power of two.
template <int kRows, typename Element>
__device__ inline void CopyRowsAsync(Element* tile, const Element* source,
                                     std::int64_t source_stride, int num_valid, int columns) {
  constexpr int kVector = 16 / sizeof(Element);
  const int vectors_per_row = columns / kVector;
  const int row_shift = __ffs(vectors_per_row) - 1;
  const int rows_per_step = static_cast<int>(blockDim.x) >> row_shift;
  const int first = static_cast<int>(threadIdx.x) >> row_shift;
  const int column = (static_cast<int>(threadIdx.x) & (vectors_per_row - 1)) * kVector;
  const Element* from = source + first * source_stride + column;
  const std::int64_t from_step = rows_per_step * source_stride;
  Element* to = tile + first * PaddedRow(columns) + column;
  const int to_step = rows_per_step * PaddedRow(columns);
  if (num_valid >= kRows) {
#pragma unroll 2
    for (int row = first; row < kRows; row += rows_per_step, from += from_step, to += to_step) {
      CopyAsync16(to, from);
    }
  } else {
    for (int row = first; row < kRows; row += rows_per_step, from += from_step, to += to_step) {
      const bool valid = row < num_valid;
      CopyAsync16(to, valid ? from : source, valid);
    }
  }
}

// The block copies kBytes contiguous bytes, a multiple of 16, 16-byte aligned.
template <int kBytes>
__device__ inline void CopyBytesAsync(void* shared, const void* global) {
  for (unsigned i = threadIdx.x; i < kBytes / 16; i += blockDim.x) {
    CopyAsync16(static_cast<uint4*>(shared) + i, static_cast<const uint4*>(global) + i);
  }
}

// Until all copies of the block have arrived. Ends with a barrier: what threads did before is done,
// so memory that they read may be copied to.
__device__ inline void WaitForBlockCopies() {
  WaitForCopies<0>();
  __syncthreads();
}

// Two words of bf16 a lane, of row g and of columns {2t, 2t + 1} and {2t + 8, 2t + 9}, to 16
// contiguous elements of that row: whole 32-byte sectors, 8 bytes a lane.
__device__ inline void StoreRowWords(__nv_bfloat16* row, bool valid, std::uint32_t left,
                                     std::uint32_t right) {
  const int t = LaneId() % 4;
  const bool odd = t % 2 == 1;
  // Even lanes collect the left half's words of a pair of lanes, odd lanes the right half's.
  const std::uint32_t other = __shfl_xor_sync(~0u, odd ? left : right, 1);
  const uint2 words = odd ? make_uint2(other, right) : make_uint2(left, other);
  if (valid) *reinterpret_cast<uint2*>(row + (odd ? 8 : 0) + t / 2 * 4) = words;
}

// A block to rows `matrix + r * stride`; rows from num_valid on are left alone.
template <typename Element>
__device__ inline void StoreRows(Element* matrix, int stride, int num_valid,
                                 const Accumulators& c) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = BlockRow(2 * half);
    const bool valid = row < num_valid;
    Element* p = matrix + row * stride;
    if constexpr (std::is_same_v<Element, __nv_bfloat16>) {
      StoreRowWords(p, valid, PackBf16(c[0][2 * half], c[0][2 * half + 1]),
                    PackBf16(c[1][2 * half], c[1][2 * half + 1]));
    } else if (valid) {
      *reinterpret_cast<float2*>(p + BlockColumn(0, 0)) = {c[0][2 * half], c[0][2 * half + 1]};
      *reinterpret_cast<float2*>(p + BlockColumn(1, 0)) = {c[1][2 * half], c[1][2 * half + 1]};
    }
  }
}

// The transpose of a block: its column r becomes row r.
template <typename Element>
__device__ inline void StoreColumns(Element* matrix, int stride, int num_valid,
                                    const Accumulators& c) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {  // columns 0..7, then 8..15
    if constexpr (std::is_same_v<Element, __nv_bfloat16>) {
      std::uint32_t words[2] = {PackBf16(c[half][0], c[half][1]), PackBf16(c[half][2], c[half][3])};
#pragma unroll
      for (std::uint32_t& word : words) {
        asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(word));
      }
      const int row = 8 * half + LaneId() / 4;
      StoreRowWords(matrix + row * stride, row < num_valid, words[0], words[1]);
    } else {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int row = BlockColumn(half, e);
        if (row < num_valid) matrix[row * stride + BlockRow(e)] = c[half][e];
      }
    }
  }
}

}  // namespace mixerbench::kernels::device
