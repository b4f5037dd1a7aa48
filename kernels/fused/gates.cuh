// What the kernels of gates share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/fused/gates_device.h"
#include "kernels/fused/vector_io.cuh"

namespace mixerbench::kernels::fused {

__device__ inline float Sigmoid(float x) { return 1 / (1 + expf(-x)); }
// log(1 + e^x) without overflow.
__device__ inline float Softplus(float x) { return fmaxf(x, 0) + log1pf(expf(-fabsf(x))); }

// Whether rows of `width` elements consist of aligned vectors; so do absent ones.
template <typename AnyRows>
__host__ __device__ bool HasVectors(const AnyRows& rows, int width) {
  const int element_size = rows.element == Element::kFloat ? 4 : 2;
  return rows.data == nullptr || (reinterpret_cast<std::uintptr_t>(rows.data) % 16 == 0 &&
                                  rows.stride * element_size % 16 == 0 && width % kVector == 0);
}

}  // namespace mixerbench::kernels::fused
