// S4D: a diagonal state space for every channel. Maths and sources: s4d.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "models/blocks/diagonal_modes.h"
#include "models/blocks/diagonal_system.h"
#include "models/blocks/state_space.h"

namespace mixerbench::models {

enum class S4dForm {
  kMinimal,  // one system for every channel, S4D-Lin, B = 1
  kFull,     // n_ssm systems of any initialisation, B learned
};

struct S4dConfig {
  S4dForm form = S4dForm::kMinimal;
  std::int64_t d_state = 64;               // N real numbers: N/2 complex modes
  DiagonalInit init = DiagonalInit::kLin;  // others than lin: full form
  std::int64_t n_ssm = 0;                  // systems shared by the channels, 0: d_model; full form
  Discretization discretization = Discretization::kZoh;
  StepTransform dt_transform = StepTransform::kExp;
  double dt_min = 1e-3;
  double dt_max = 1e-1;
  double dropout = 0;       // before and after the GELU
  bool tie_dropout = true;  // one mask for all tokens of a sequence
};

}  // namespace mixerbench::models

template <>
struct mixerbench::EnumNames<mixerbench::models::S4dForm> {
  using E = mixerbench::models::S4dForm;
  static constexpr std::pair<E, std::string_view> kNames[] = {{E::kMinimal, "minimal"},
                                                              {E::kFull, "full"}};
};
