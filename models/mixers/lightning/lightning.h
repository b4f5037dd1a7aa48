// Lightning attention: linear attention with a constant decay by head and layer. Maths and sources:
// lightning.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "models/blocks/norms.h"

namespace mixerbench::models {

struct LightningConfig {
  std::int64_t num_heads = 2;
  double expand_k = 1;  // key channels per channel of d_model
  double expand_v = 1;
  double max_decay = 8;        // what the first layer's heads decay a token, up to
  std::int64_t conv_size = 0;  // of q, k, v, with silu; 0: none
  OutputGate output_gate = OutputGate::kSilu;
  double norm_eps = 1e-5;
};

}  // namespace mixerbench::models
