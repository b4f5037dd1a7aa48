// Retention: linear attention with rotated queries and keys and a constant decay per head. Maths
// and sources: retnet.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "models/blocks/norms.h"

namespace mixerbench::models {

struct RetNetConfig {
  std::int64_t num_heads = 2;
  double expand_k = 1;  // key channels per channel of d_model
  double expand_v = 2;
  double first_decay_exponent = 5;  // head 0 keeps 1 - 2^-this a token
  double last_decay_exponent =
      0;  // of the last head, the others evenly between; 0: one more a head
  OutputGate output_gate = OutputGate::kSilu;
  double norm_eps = 1e-5;
};

}  // namespace mixerbench::models
