// MesaNet. Maths and sources: mesa_net.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace mixerbench::models {

struct MesaNetConfig {
  std::int64_t num_heads = 2;
  double expand_k = 1;               // key channels per channel of d_model
  double expand_v = 1;               // value channels per channel of d_model
  std::int64_t conv_size = 4;        // of q and k; 0: no convolution
  std::int64_t num_iterations = 30;  // of conjugate gradients
  double min_ridge = 0.25;           // lambda at least
  bool use_output_gate = false;
  double norm_eps = 1e-5;
};

}  // namespace mixerbench::models
