// S5: one diagonal state space with many inputs and outputs. Maths and sources: s5.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "models/blocks/diagonal_system.h"

namespace mixerbench::models {

enum class S5OutputInit { kTruncStandardNormal, kLecunNormal, kComplexNormal };

enum class S5Activation { kHalfGlu1, kHalfGlu2, kFullGlu, kGelu, kSilu, kNone };

struct S5Config {
  std::int64_t d_state = 256;  // order of the system before symmetry halves it
  std::int64_t blocks = 8;     // of HiPPO matrices on the diagonal at the start
  bool conj_sym = true;        // one of each pair of conjugate modes is kept
  bool clip_eigs = false;      // real parts of rates stay below -1e-4
  S5OutputInit c_init = S5OutputInit::kTruncStandardNormal;
  Discretization discretization = Discretization::kZoh;
  double dt_min = 1e-3;
  double dt_max = 1e-1;
  double step_rescale = 1;  // of all time steps: another sampling rate
  S5Activation activation = S5Activation::kHalfGlu1;
  double dropout = 0;  // after the activation
};

}  // namespace mixerbench::models

template <>
struct mixerbench::EnumNames<mixerbench::models::S5OutputInit> {
  using E = mixerbench::models::S5OutputInit;
  static constexpr std::pair<E, std::string_view> kNames[] = {
      {E::kTruncStandardNormal, "trunc_standard_normal"},
      {E::kLecunNormal, "lecun_normal"},
      {E::kComplexNormal, "complex_normal"}};
};

template <>
struct mixerbench::EnumNames<mixerbench::models::S5Activation> {
  using E = mixerbench::models::S5Activation;
  static constexpr std::pair<E, std::string_view> kNames[] = {
      {E::kHalfGlu1, "half_glu1"}, {E::kHalfGlu2, "half_glu2"}, {E::kFullGlu, "full_glu"},
      {E::kGelu, "gelu"},          {E::kSilu, "silu"},          {E::kNone, "none"}};
};
