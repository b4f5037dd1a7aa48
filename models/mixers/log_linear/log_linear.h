// Log-linear attention. Maths and sources: log_linear.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace mixerbench::models {

struct LogLinearConfig {
  std::int64_t num_heads = 2;
  double expand_v = 1;           // value channels per channel of d_model
  std::int64_t head_k_dim = 64;  // channels of queries and keys
  std::int64_t num_groups = 1;   // heads of queries and keys
  std::int64_t conv_size = 4;    // of q, k, v, with bias; 0: no convolution
  std::int64_t num_levels = 0;   // for 2^(num_levels-1) tokens; 0: for the longest input
  bool bias = true;              // of the first projection
  double norm_eps = 1e-5;
};

}  // namespace mixerbench::models
