// Eight neighbouring elements of a row in registers, as float, and sums over groups of lanes.
//
// Rows are 16-byte aligned and a lane owns eight neighbouring columns, so that a lane moves 16
// bytes of bf16 or twice 16 bytes of fp32 at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <cuda_bf16.h>

#include "kernels/device/element.h"

namespace mixerbench::kernels {

constexpr int kVector = 8;

struct Vector {
  float x[kVector];
};

__device__ inline Vector Zeros() {
  Vector v;
#pragma unroll
  for (float& x : v.x) x = 0;
  return v;
}

// Eight elements as they lie in memory: what is loaded ahead of its use is unpacked only there, so
// that no load waits for another.
template <typename T>
struct Packed;

template <>
struct Packed<float> {
  float4 low, high;

  __device__ Vector Unpack() const {
    return {{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
  }
};

template <>
struct Packed<__nv_bfloat16> {
  uint4 raw;

  __device__ Vector Unpack() const {
    const std::uint32_t pairs[] = {raw.x, raw.y, raw.z, raw.w};
    Vector v;
#pragma unroll
    for (int i = 0; i < kVector / 2; ++i) {
      v.x[2 * i] = __uint_as_float(pairs[i] << 16);
      v.x[2 * i + 1] = __uint_as_float(pairs[i] & 0xffff0000u);
    }
    return v;
  }
};

// Rounded to the nearest.
template <typename T>
__device__ inline Packed<T> Pack(const Vector& v);

template <>
__device__ inline Packed<float> Pack(const Vector& v) {
  return {make_float4(v.x[0], v.x[1], v.x[2], v.x[3]), make_float4(v.x[4], v.x[5], v.x[6], v.x[7])};
}

template <>
__device__ inline Packed<__nv_bfloat16> Pack(const Vector& v) {
  Packed<__nv_bfloat16> packed;
  auto* pairs = reinterpret_cast<__nv_bfloat162*>(&packed.raw);
#pragma unroll
  for (int i = 0; i < kVector / 2; ++i) {
    pairs[i] = __floats2bfloat162_rn(v.x[2 * i], v.x[2 * i + 1]);
  }
  return packed;
}

__device__ inline void StorePacked(float* target, const Packed<float>& packed) {
  reinterpret_cast<float4*>(target)[0] = packed.low;
  reinterpret_cast<float4*>(target)[1] = packed.high;
}

__device__ inline void StorePacked(__nv_bfloat16* target, const Packed<__nv_bfloat16>& packed) {
  *reinterpret_cast<uint4*>(target) = packed.raw;
}

__device__ inline void StoreFloat(float* target, const Vector& v) {
  StorePacked(target, Pack<float>(v));
}

__device__ inline void StoreBFloat16(__nv_bfloat16* target, const Vector& v) {
  StorePacked(target, Pack<__nv_bfloat16>(v));
}

// Zeros unless `valid`.
__device__ inline Packed<float> LoadPacked(const float* source, bool valid) {
  const auto* vectors = reinterpret_cast<const float4*>(source);
  const float4 zeros = make_float4(0, 0, 0, 0);
  return {valid ? vectors[0] : zeros, valid ? vectors[1] : zeros};
}

__device__ inline Packed<__nv_bfloat16> LoadPacked(const __nv_bfloat16* source, bool valid) {
  return {valid ? *reinterpret_cast<const uint4*>(source) : make_uint4(0, 0, 0, 0)};
}

__device__ inline Vector LoadFloat(const float* source) {
  return LoadPacked(source, true).Unpack();
}

__device__ inline void StoreVector(float* target, const Vector& v) { StoreFloat(target, v); }
__device__ inline void StoreVector(__nv_bfloat16* target, const Vector& v) {
  StoreBFloat16(target, v);
}

__device__ inline Vector Load(const void* data, Element element, long long index) {
  return element == Element::kFloat
             ? LoadFloat(static_cast<const float*>(data) + index)
             : LoadPacked(static_cast<const __nv_bfloat16*>(data) + index, true).Unpack();
}

__device__ inline void Store(void* data, Element element, long long index, const Vector& v) {
  if (element == Element::kFloat) {
    StoreFloat(static_cast<float*>(data) + index, v);
  } else {
    StoreBFloat16(static_cast<__nv_bfloat16*>(data) + index, v);
  }
}

// Sum over aligned groups of `lanes` (a power of two) neighbouring lanes; every lane gets it.
__device__ inline float GroupSum(float x, int lanes) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    if (offset < lanes) x += __shfl_xor_sync(0xffffffffu, x, offset);
  }
  return x;
}

}  // namespace mixerbench::kernels
