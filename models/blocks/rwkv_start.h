// How parameters of RWKV-5 and RWKV-6 start, and the shares of every RWKV's channel mixer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "models/mixer.h"

namespace mixerbench::models {

// Start values of layer l of L over the channels i = 0..D-1, float64 on the CPU. With
// r1 = 1 - l/L and r0 = l/(L-1), 0 for one layer:
struct RwkvStart {
  explicit RwkvStart(const MixerContext& context);

  // (i/D)^(exponent r1): the share of the token itself in a mix with the one before.
  at::Tensor Share(double exponent) const;
  at::Tensor ValueShare() const;  // Share(1) + 0.3 r0
  // -6 + 5 (i/(D-1))^(0.7 + 1.3 r0): the log decay is -exp of it.
  at::Tensor Decay() const;
  // r0 (1 - i/(D-1)) + 0.1 ((i+1) mod 3 - 1)
  at::Tensor Bonus() const;

  double remaining() const { return remaining_; }  // r1

 private:
  at::Tensor Ramp() const;  // i/(D-1)

  std::int64_t d_model_;
  double remaining_;
  double depth_;  // r0
};

}  // namespace mixerbench::models
