// MetaLA. Maths and sources: metala.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "models/blocks/linear.h"

namespace mixerbench::models {

struct MetaLaConfig {
  std::int64_t num_heads = 2;
  double expand_k = 0.5;  // key channels, that is decays, per channel of d_model
  double expand_v = 1;
  double gate_logit_normalizer = 16;  // log decay = log sigmoid(z) / this
  std::int64_t conv_size = 4;         // of x, followed by silu; 0: no convolution
  bool self_augmentation = true;      // a token reads its own value, without writing more of it
  bool use_output_gate = true;
  double norm_eps = 1e-5;
  LinearInit init = LinearInit::kXavier;  // of the projections of q and k
};

}  // namespace mixerbench::models
