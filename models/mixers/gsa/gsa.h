// Gated slot attention. Maths and sources: gsa.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "models/blocks/feature_map.h"

namespace mixerbench::models {

struct GsaConfig {
  std::int64_t num_heads = 2;
  std::int64_t num_kv_heads = 0;  // of keys, values and slots; 0: num_heads
  double expand_k = 1;            // key channels per channel of d_model
  double expand_v = 1;
  std::int64_t num_slots = 0;  // of a head; 0: as many as it has key channels
  FeatureMapKind feature_map = FeatureMapKind::kSilu;  // of q and k
  double gate_logit_normalizer = 8;                    // log decay = log sigmoid(z) / this
  std::int64_t conv_size = 0;  // of q, k, v, before the maps; 0: no convolution
  double norm_eps = 1e-5;
};

}  // namespace mixerbench::models
