// Matrix products on tiles of 16 by 16, written once for bf16, tf32 and fp32 operands.
//
// Every kind holds the same elements in the same lane, those of the bf16 instruction (warp.cuh):
// for fp32 data an instruction of depth 8 takes columns {2t, 2t+1} where its manual says {t, t+4}.
// The order of a sum's terms is free, as long as both operands agree on it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <cuda_bf16.h>

#include "kernels/device/warp.cuh"

namespace mixerbench::kernels::device {

// Elements between the ends of rows of a tile in shared memory: 16 bytes (bf16) or 32 (fp32), which
// spreads the rows of a fragment over all banks.
constexpr int kRowPadding = 8;

// What a lane holds of a tile [16 rows, 16 columns], as fp32: [row half][column half][pair], that
// is rows g + 8 * i and columns 2t + 8 * j + p, where g = lane / 4 and t = lane % 4.
using Tile = float[2][2][2];

// Two accumulators [16,8] side by side have the layout of a Tile:
// element [i][j][p] is accumulator j, register 2 i + p.
using Accumulators = float[2][4];

// --- bf16
// -----------------------------------------------------------------------------------------

struct Bf16Operand {
  using Element = __nv_bfloat16;
  struct alignas(16) A {  // [16,16]
    std::uint32_t r[4];
  };
  struct alignas(16) B {  // [16,16]: two products' worth of columns
    std::uint32_t r[2][2];
  };

  static __device__ float ToFloat(Element x) { return __bfloat162float(x); }
  static __device__ Element FromFloat(float x) { return __float2bfloat16_rn(x); }

  // The left operand from a row-major tile.
  static __device__ A LoadA(const Element* tile, int stride) {
    const int lane = threadIdx.x % 32;
    A a;
    LoadMatrices(a.r, tile + (lane % 16) * stride + lane / 16 * 8);
    return a;
  }
  // The left operand from the transposed tile: memory holds [depth][row].
  static __device__ A LoadATransposed(const Element* tile, int stride) {
    const int lane = threadIdx.x % 32;
    A a;
    LoadMatricesTransposed(a.r, tile + (lane % 8 + lane / 16 * 8) * stride + lane / 8 % 2 * 8);
    return a;
  }
  // The right operand from memory [column][depth].
  static __device__ B LoadB(const Element* tile, int stride) {
    const int lane = threadIdx.x % 32;
    B b;
    std::uint32_t r[4];
    LoadMatrices(r, tile + (lane % 8 + lane / 16 * 8) * stride + lane / 8 % 2 * 8);
    b.r[0][0] = r[0], b.r[0][1] = r[1], b.r[1][0] = r[2], b.r[1][1] = r[3];
    return b;
  }
  // The right operand from memory [depth][column].
  static __device__ B LoadBTransposed(const Element* tile, int stride) {
    const int lane = threadIdx.x % 32;
    B b;
    std::uint32_t r[4];
    LoadMatricesTransposed(r, tile + (lane % 16) * stride + lane / 16 * 8);
    b.r[0][0] = r[0], b.r[0][1] = r[1], b.r[1][0] = r[2], b.r[1][1] = r[3];
    return b;
  }
  static __device__ A ToA(const Tile& x) {
    return {{PackBf16(x[0][0][0], x[0][0][1]), PackBf16(x[1][0][0], x[1][0][1]),
             PackBf16(x[0][1][0], x[0][1][1]), PackBf16(x[1][1][0], x[1][1][1])}};
  }
  static __device__ void FromA(Tile& x, const A& a) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        x[i][j][0] = LowBf16(a.r[i + 2 * j]);
        x[i][j][1] = HighBf16(a.r[i + 2 * j]);
      }
    }
  }
  // A tile whose rows are the columns of the right operand: memory [column][depth] in registers.
  static __device__ B ToB(const Tile& x) {
    return {{{PackBf16(x[0][0][0], x[0][0][1]), PackBf16(x[0][1][0], x[0][1][1])},
             {PackBf16(x[1][0][0], x[1][0][1]), PackBf16(x[1][1][0], x[1][1][1])}}};
  }
  // d [16,8] += a [16,16] b [16, columns 8 j .. 8 j + 7]
  static __device__ void Multiply(float (&d)[4], const A& a, const B& b, int j) {
    MmaBf16(d, a.r, b.r[j]);
  }
};

// --- fp32 data
// ------------------------------------------------------------------------------------

// Loads shared by tf32 and fp32 operands, which differ in the product only.
struct Fp32Layout {
  using Element = float;
  struct alignas(16) A {
    Tile x;
  };
  struct alignas(16) B {
    float x[2][2][2];  // [column half][depth half][pair]
  };

  static __device__ float ToFloat(float x) { return x; }
  static __device__ float FromFloat(float x) { return x; }

  static __device__ A LoadA(const float* tile, int stride) {
    const int g = threadIdx.x % 32 / 4;
    const int t = threadIdx.x % 4;
    A a;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float2 pair =
            *reinterpret_cast<const float2*>(tile + (g + 8 * i) * stride + 2 * t + 8 * j);
        a.x[i][j][0] = pair.x;
        a.x[i][j][1] = pair.y;
      }
    }
    return a;
  }
  static __device__ A LoadATransposed(const float* tile, int stride) {
    const int g = threadIdx.x % 32 / 4;
    const int t = threadIdx.x % 4;
    A a;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
#pragma unroll
        for (int p = 0; p < 2; ++p) a.x[i][j][p] = tile[(2 * t + 8 * j + p) * stride + g + 8 * i];
      }
    }
    return a;
  }
  static __device__ B LoadB(const float* tile, int stride) { return ToB(LoadA(tile, stride).x); }
  static __device__ B LoadBTransposed(const float* tile, int stride) {
    return ToB(LoadATransposed(tile, stride).x);
  }
  static __device__ A ToA(const Tile& x) {
    A a;
#pragma unroll
    for (int e = 0; e < 8; ++e) a.x[e / 4][e / 2 % 2][e % 2] = x[e / 4][e / 2 % 2][e % 2];
    return a;
  }
  static __device__ void FromA(Tile& x, const A& a) {
#pragma unroll
    for (int e = 0; e < 8; ++e) x[e / 4][e / 2 % 2][e % 2] = a.x[e / 4][e / 2 % 2][e % 2];
  }
  static __device__ B ToB(const Tile& x) {
    B b;
#pragma unroll
    for (int e = 0; e < 8; ++e) b.x[e / 4][e / 2 % 2][e % 2] = x[e / 4][e / 2 % 2][e % 2];
    return b;
  }
};

struct Tf32Operand : Fp32Layout {
  static __device__ void Multiply(float (&d)[4], const A& a, const B& b, int column_half) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      MmaTf32(d, RoundToTf32(a.x[0][j][0]), RoundToTf32(a.x[1][j][0]), RoundToTf32(a.x[0][j][1]),
              RoundToTf32(a.x[1][j][1]), RoundToTf32(b.x[column_half][j][0]),
              RoundToTf32(b.x[column_half][j][1]));
    }
  }
};

// x = high + low with both in tf32 to 2^-22; the product of the low parts is below fp32's rounding.
struct Fp32Operand : Fp32Layout {
  static __device__ void Multiply(float (&d)[4], const A& a, const B& b, int column_half) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const float values[6] = {a.x[0][j][0], a.x[1][j][0],           a.x[0][j][1],
                               a.x[1][j][1], b.x[column_half][j][0], b.x[column_half][j][1]};
      std::uint32_t high[6];
      std::uint32_t low[6];
#pragma unroll
      for (int i = 0; i < 6; ++i) {
        high[i] = RoundToTf32(values[i]);
        low[i] = RoundToTf32(values[i] - FloatFromBits(high[i]));
      }
      MmaTf32(d, low[0], low[1], low[2], low[3], high[4], high[5]);
      MmaTf32(d, high[0], high[1], high[2], high[3], low[4], low[5]);
      MmaTf32(d, high[0], high[1], high[2], high[3], high[4], high[5]);
    }
  }
};

}  // namespace mixerbench::kernels::device
