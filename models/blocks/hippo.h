// HiPPO matrices and their normal-plus-low-rank form: what state spaces are initialised with.
// Everything is float64 on the CPU and happens when a model is built.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "base/fields.h"

namespace mixerbench::models {

enum class HippoMeasure {
  kLegs,     // scaled Legendre: the whole past
  kLegt,     // translated Legendre: a window
  kFourier,  // translated Fourier: a window ("fout")
};

// x' = a x + b u, where a + sum_r p_r p_r^T is normal.
struct HippoSystem {
  at::Tensor a;  // [N,N]
  at::Tensor b;  // [N]
  at::Tensor p;  // [R,N], R = 1, for legt 2
};

HippoSystem Hippo(HippoMeasure measure, std::int64_t state_size);

// a = V (diag(decay + i omega) - sum_r p_r p_r^H) V^H for the N/2 modes with the lowest omega, all
// <= 0; the others are their conjugates. Eigenvectors are unique up to a phase, which makes their
// first entry positive here.
struct NormalPlusLowRank {
  double decay = 0;
  at::Tensor omega;  // [M], M = N/2, ascending
  at::Tensor b;      // [M] complex: V^H b
  at::Tensor p;      // [R,M] complex
  at::Tensor v;      // [N,M] complex
};

// N is even.
NormalPlusLowRank Diagonalize(HippoMeasure measure, std::int64_t state_size);

// As S4 starts its B: imaginary parts in [-2, 2].
at::Tensor ClipImaginary(const at::Tensor& b);

}  // namespace mixerbench::models

template <>
struct mixerbench::EnumNames<mixerbench::models::HippoMeasure> {
  using E = mixerbench::models::HippoMeasure;
  static constexpr std::pair<E, std::string_view> kNames[] = {
      {E::kLegs, "legs"}, {E::kLegt, "legt"}, {E::kFourier, "fourier"}};
};
