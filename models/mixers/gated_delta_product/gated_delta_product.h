// Gated DeltaProduct. Maths and sources: gated_delta_product.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace mixerbench::models {

struct GatedDeltaProductConfig {
  std::int64_t num_heads = 2;        // of queries and keys
  std::int64_t num_v_heads = 0;      // 0: num_heads; a multiple of it
  double expand_k = 1;               // key channels per channel of d_model
  double expand_v = 2;               // value channels of a head per key channel
  std::int64_t num_householder = 2;  // steps of the delta rule a token
  std::int64_t conv_size = 4;        // of q, k, v; 0: no convolution
  bool use_forget_gate = true;       // false: DeltaProduct
  bool allow_neg_eigval = true;
  bool use_output_gate = true;
  double norm_eps = 1e-5;
};

}  // namespace mixerbench::models
