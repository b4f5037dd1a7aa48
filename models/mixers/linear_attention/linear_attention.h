// Linear attention with a feature map. Maths and sources: linear_attention.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "models/blocks/feature_map.h"

namespace mixerbench::models {

struct LinearAttentionConfig {
  std::int64_t num_heads = 2;
  std::int64_t head_k_dim = 0;  // before the feature map; 0: d_model / num_heads
  double expand_v = 1;          // value channels per channel of d_model
  FeatureMapKind feature_map = FeatureMapKind::kElu1;
  bool norm_q = false;  // divide phi(q) by the sum of its channels
  bool norm_k = false;
  bool use_normalizer = false;  // divide by phi(q).sum phi(k)
  double normalizer_eps = 1e-10;
  double scale = 0;             // of phi(q).phi(k); 0: feature_dim^-0.5
  bool use_output_norm = true;  // RMSNorm per head
  double norm_eps = 1e-5;
};

}  // namespace mixerbench::models
