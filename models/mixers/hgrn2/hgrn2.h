// HGRN2: gated linear RNN with state expansion. Maths and sources: hgrn2.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace mixerbench::models {

struct Hgrn2Config {
  std::int64_t num_heads = 2;
  double expand_k = 1;         // key channels, that is forget gates, per channel of d_model
  bool lower_bounds = true;    // learned bounds of the forget gates that grow with depth
  std::int64_t conv_size = 0;  // of q, f, v, without activation; 0: no convolution
  double norm_eps = 1e-5;
};

}  // namespace mixerbench::models
