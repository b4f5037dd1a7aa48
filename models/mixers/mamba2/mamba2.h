// The Mamba-2 block (SSD). Maths and sources: mamba2.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace mixerbench::models {

struct Mamba2Config {
  std::int64_t expand = 2;      // channels per channel of d_model
  std::int64_t d_state = 128;   // states of a channel
  std::int64_t head_dim = 0;    // 0: 64, or all channels where there are fewer
  std::int64_t num_groups = 1;  // of heads that share B and C
  std::int64_t conv_size = 4;   // width of the convolution of x, B and C
  bool conv_bias = true;
  double A_min = 1;  // decay rates at the start
  double A_max = 16;
  double dt_min = 1e-3;  // steps at the start
  double dt_max = 0.1;
  double dt_init_floor = 1e-4;
  double dt_limit_min = 0;  // steps are clamped to these; 0: no bound
  double dt_limit_max = 0;
  bool learnable_init_states = false;
  bool norm_before_gate = false;
  double norm_eps = 1e-5;
};

}  // namespace mixerbench::models
