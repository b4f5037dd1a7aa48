// DeltaNet. Maths and sources: delta_net.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "models/blocks/delta_rule_mixer.h"

namespace mixerbench::models {

struct DeltaNetConfig {
  std::int64_t num_heads = 2;
  double expand_k = 1;  // key channels per channel of d_model
  double expand_v = 1;
  std::int64_t conv_size = 4;  // of q, k, v; 0: no convolution
  QkActivation qk_activation = QkActivation::kSilu;
  QkNorm qk_norm = QkNorm::kL2;
  bool allow_neg_eigval = false;
  bool use_output_gate = false;
  double norm_eps = 1e-5;
};

}  // namespace mixerbench::models
