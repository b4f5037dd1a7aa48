// Eight neighbouring elements as they lie in memory: a bf16 one takes half the registers of a
// `Vector`, and a load that is not converted at once does not make the thread wait.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/fused/vector_io.cuh"

namespace mixerbench::kernels::fused {

// T is float or __nv_bfloat16.
template <typename T>
struct RawVector {
  uint4 bits[sizeof(T) / 2];

  __device__ Vector Values() const {
    if constexpr (sizeof(T) == 4) {
      return LoadFloat(reinterpret_cast<const float*>(bits));
    } else {
      return LoadBFloat16(reinterpret_cast<const __nv_bfloat16*>(bits));
    }
  }
};

// 16-byte aligned.
template <typename T>
__device__ inline RawVector<T> LoadRaw(const T* source) {
  return *reinterpret_cast<const RawVector<T>*>(source);
}

template <typename T>
__device__ inline void StoreAs(T* target, const Vector& v) {
  if constexpr (sizeof(T) == 4) {
    StoreFloat(target, v);
  } else {
    StoreBFloat16(target, v);
  }
}

}  // namespace mixerbench::kernels::fused
