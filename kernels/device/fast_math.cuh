// Exponential, reciprocal and inverse root of the special function unit, one instruction each, and
// sums over lanes without branches.
//
// Denormals are taken as zero: `__expf` and `__fdividef` spend four more instructions a value on
// them, which a sum with 1 or a result in bf16 cannot show.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace mixerbench::kernels {

constexpr float kLog2E = 1.4426950408889634f;

// 2^x, 2 ulp.
__device__ inline float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// 1 / x, 1 ulp.
__device__ inline float Reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// x^-1/2, 2 ulp.
__device__ inline float InverseRoot(float x) {
  float y;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// 1 / (1 + exp(-x)), 2 ulp near 0; its relative error grows with |x| by the rounding of the
// exponent (1e-6 at -20).
__device__ inline float FastSigmoid(float x) { return Reciprocal(1 + Exp2(-kLog2E * x)); }

// Sum over aligned groups of `lanes` (a power of two up to kMaxLanes) neighbouring lanes, times
// kMaxLanes / lanes: the levels that a smaller group does not have double its sum, exactly, which
// costs less than a branch at each. GroupScale undoes it.
template <int kMaxLanes>
__device__ inline float ScaledGroupSum(float x, int lanes) {
#pragma unroll
  for (int offset = 1; offset < kMaxLanes; offset *= 2) {
    x += __shfl_xor_sync(0xffffffffu, x, offset & (lanes - 1));
  }
  return x;
}

template <int kMaxLanes>
__device__ inline float GroupScale(int lanes) {
  return static_cast<float>(lanes) / kMaxLanes;
}

}  // namespace mixerbench::kernels
