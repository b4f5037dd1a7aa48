// What the kernels of gates share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/device/fast_math.cuh"
#include "kernels/device/vector_io.cuh"
#include "kernels/gates/gates_cuda.h"

namespace mixerbench::kernels {

__device__ inline float Sigmoid(float x) { return 1 / (1 + expf(-x)); }

// log(1 + u) for 0 <= u <= 1 to 3 ulp, by the polynomial that is closest to log(1 + u) / u in
// relative error (3e-8 before rounding); log1pf takes three times as many instructions.
__device__ inline float LogOnePlusFraction(float u) {
  constexpr float kCoefficients[] = {0.99999994f,   -0.499994934f,  0.333190978f,
                                     -0.24842982f,  0.191060066f,   -0.136632457f,
                                     0.0782259554f, -0.0295052379f, 0.00523269409f};
  float sum = 0;
#pragma unroll
  for (int i = 8; i >= 0; --i) sum = sum * u + kCoefficients[i];
  return sum * u;
}

// log(1 + e^x) without overflow.
__device__ inline float Softplus(float x) {
  return fmaxf(x, 0) + LogOnePlusFraction(expf(-fabsf(x)));
}

// Whether rows of `width` elements consist of aligned vectors; so do absent ones.
template <typename AnyRows>
__host__ __device__ bool HasVectors(const AnyRows& rows, int width) {
  const int element_size = rows.element == Element::kFloat ? 4 : 2;
  return rows.data == nullptr || (reinterpret_cast<std::uintptr_t>(rows.data) % 16 == 0 &&
                                  rows.stride * element_size % 16 == 0 && width % kVector == 0);
}

}  // namespace mixerbench::kernels
