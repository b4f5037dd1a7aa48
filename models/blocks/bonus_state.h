// The core of RWKV-5 and RWKV-6, and how their parameters start.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "models/blocks/matrix_state_mixer.h"

namespace mixerbench::models {

// A core of one state, "state" [H,K,V], that a token reads before it writes; its own write it reads
// weighted by `bonus` [H,K]. Records state, state_norm and bonus.
MatrixCore BonusState(const at::Tensor& bonus, const MatrixLayout& layout);

// Start values of layer l of L over the channels i = 0..D-1, float64 on the CPU. With
// r1 = 1 - l/L and r0 = l/(L-1), 0 for one layer:
struct RwkvStart {
  RwkvStart(const MixerContext& context);

  // (i/D)^(exponent r1): the share of the token itself in a mix with the one before.
  at::Tensor Share(double exponent) const;
  at::Tensor ValueShare() const;  // Share(1) + 0.3 r0
  // -6 + 5 (i/(D-1))^(0.7 + 1.3 r0): the log decay is -exp of it.
  at::Tensor Decay() const;
  // r0 (1 - i/D) + 0.1 ((i+1) mod 3 - 1)
  at::Tensor Bonus() const;

 private:
  std::int64_t d_model_;
  double remaining_;  // r1
  double depth_;      // r0
};

}  // namespace mixerbench::models
