// Gated linear attention with one decay per head. Maths and sources: simple_gla.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "models/blocks/norms.h"

namespace mixerbench::models {

struct SimpleGlaConfig {
  std::int64_t num_heads = 2;
  double expand_k = 1;  // key channels per channel of d_model
  double expand_v = 1;
  double gate_logit_normalizer = 16;  // log decay = log sigmoid(z) / this
  std::int64_t conv_size = 4;         // of q, k, v, followed by silu; 0: no convolution
  OutputGate output_gate = OutputGate::kSilu;
  double norm_eps = 1e-5;
};

}  // namespace mixerbench::models
