// Log-linear Gated DeltaNet: the delta rule with decay on O(log T) states. See log_linear_gdn.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace mixerbench::models {

struct LogLinearGdnConfig {
  std::int64_t num_heads = 2;    // of queries and keys
  std::int64_t num_v_heads = 0;  // 0: num_heads; a multiple of it
  double expand_k = 1;           // key channels per channel of d_model
  double expand_v = 1;           // value channels of a head per key channel
  std::int64_t conv_size = 4;    // of q, k, v; 0: no convolution
  std::int64_t num_levels = 0;   // for 2^(num_levels-1) tokens; 0: for the longest input
  bool allow_neg_eigval = false;
  bool use_output_gate = true;
  double norm_eps = 1e-5;
};

}  // namespace mixerbench::models
