// Gated linear attention. Maths and sources: gla.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "models/blocks/feature_map.h"
#include "models/blocks/linear.h"
#include "models/blocks/norms.h"

namespace mixerbench::models {

struct GlaConfig {
  std::int64_t num_heads = 2;
  std::int64_t num_kv_heads = 0;  // of keys, values, decays and states; 0: num_heads
  double expand_k = 0.5;          // key channels per channel of d_model
  double expand_v = 1;
  FeatureMapKind feature_map = FeatureMapKind::kIdentity;  // of q and k; keeps their channels
  std::int64_t gate_low_rank_dim = 16;
  double gate_logit_normalizer = 16;  // log decay = log sigmoid(z) / this
  double min_log_decay = 0;           // 0: unbounded, else the log decay is at least this
  std::int64_t conv_size = 0;         // of q, k, v, followed by silu; 0: no convolution
  OutputGate output_gate = OutputGate::kSilu;
  double norm_eps = 1e-5;
  LinearInit init = LinearInit::kBackbone;  // of all projections
};

}  // namespace mixerbench::models
