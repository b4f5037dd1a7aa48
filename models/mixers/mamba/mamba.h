// The Mamba block. Maths and sources: mamba.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace mixerbench::models {

struct MambaConfig {
  std::int64_t expand = 2;     // channels per channel of d_model
  std::int64_t d_state = 16;   // states of a channel
  std::int64_t conv_size = 4;  // width of the convolution
  bool conv_bias = true;
  std::int64_t dt_rank = 0;  // 0: d_model / 16, rounded up
  double dt_min = 1e-3;      // steps at the start
  double dt_max = 0.1;
  double dt_init_floor = 1e-4;
};

}  // namespace mixerbench::models
