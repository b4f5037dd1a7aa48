// S4: a diagonal-plus-low-rank state space for every channel. Maths and sources: s4.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/fields.h"
#include "models/blocks/state_space.h"

namespace mixerbench::models {

enum class S4Measure {
  kLegs,
  kLegt,
  kFourier,
  kHippo,  // half of the systems legs, the others fourier
};

struct S4Config {
  std::int64_t d_state = 64;             // N real numbers: N/2 complex modes
  S4Measure measure = S4Measure::kLegs;  // the HiPPO matrix at the start
  std::int64_t n_ssm = 0;                // systems (A, B) shared by the channels; 0: d_model
  bool clip_b = true;                    // imaginary parts of B start in [-2, 2]
  StepTransform dt_transform = StepTransform::kExp;
  double dt_min = 1e-3;
  double dt_max = 1e-1;
  double dropout = 0;       // before and after the GELU
  bool tie_dropout = true;  // one mask for all tokens of a sequence
};

}  // namespace mixerbench::models

template <>
struct mixerbench::EnumNames<mixerbench::models::S4Measure> {
  using E = mixerbench::models::S4Measure;
  static constexpr std::pair<E, std::string_view> kNames[] = {
      {E::kLegs, "legs"}, {E::kLegt, "legt"}, {E::kFourier, "fourier"}, {E::kHippo, "hippo"}};
};
