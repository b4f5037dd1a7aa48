// Raven: routing slot memories. Maths and sources: raven.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "models/blocks/norms.h"
#include "models/mixers/raven/slot_router.h"

namespace mixerbench::models {

struct RavenConfig {
  std::int64_t num_heads = 4;
  double expand_k = 1;  // key channels per channel of d_model
  double expand_v = 1;
  std::int64_t num_slots = 64;
  std::int64_t top_k = 16;  // slots that a token writes
  raven::SlotScore router_score = raven::SlotScore::kSigmoid;
  bool router_mlp = false;     // two projections with GELU instead of one
  bool gumbel_noise = true;    // on the router's logits, in training
  double alpha = 1;            // routing weights add up to 1 / alpha
  std::int64_t conv_size = 0;  // of q, k, v; 0: no convolution
  bool use_qk_norm = true;
  OutputGate output_gate = OutputGate::kSilu;
  double norm_eps = 1e-5;
};

}  // namespace mixerbench::models
