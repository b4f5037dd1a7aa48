// The learned rates and inputs of diagonal state spaces, and how S4D starts them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "base/fields.h"
#include "models/parameters.h"

namespace mixerbench::models {

// Rates -1/2 + i omega_n for n = 0..M-1, N = 2 M:
enum class DiagonalInit {
  kLin,   // omega_n = pi n
  kInv,   // N/pi (N/(2n+1) - 1)
  kInv2,  // N/pi (N/(n+1) - 1)
  kQuad,  // (1+2n)^2 / pi
  kReal,  // -(n+1), not complex
  kLegs,  // of HiPPO-LegS, with its input; 1 is the input of all others
  kDiag,  // half of the systems inv, the others lin
};

struct DiagonalModes {
  at::Tensor rate;   // [S,M] complex128
  at::Tensor input;  // [S,M] complex128
};

// On the CPU.
DiagonalModes InitialModes(DiagonalInit init, std::int64_t num_systems, std::int64_t num_modes);

// Rates as parameters: `A_real` = log(-Re), `A_imag` = Im, [S,M] each.
class DiagonalRates {
 public:
  // Starts with Re <= -1e-4 and Im >= min_frequency.
  DiagonalRates(const ParameterScope& scope, const at::Tensor& initial, double min_frequency);
  at::Tensor operator()() const;  // [S,M] complex128

 private:
  at::Tensor log_decay_;
  at::Tensor frequency_;
};

// [S,M] -> [H,M]: channel h has system h mod S.
at::Tensor ShareSystems(const at::Tensor& x, std::int64_t num_channels);

}  // namespace mixerbench::models

template <>
struct mixerbench::EnumNames<mixerbench::models::DiagonalInit> {
  using E = mixerbench::models::DiagonalInit;
  static constexpr std::pair<E, std::string_view> kNames[] = {
      {E::kLin, "lin"},   {E::kInv, "inv"},   {E::kInv2, "inv2"}, {E::kQuad, "quad"},
      {E::kReal, "real"}, {E::kLegs, "legs"}, {E::kDiag, "diag"}};
};
