// The Mamba-3 block. Maths and sources: mamba3.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace mixerbench::models {

struct Mamba3Config {
  std::int64_t expand = 2;      // channels per channel of d_model
  std::int64_t d_state = 128;   // states of a channel
  std::int64_t head_dim = 0;    // 0: 64, or all channels where there are fewer
  std::int64_t num_groups = 1;  // of heads that share B and C
  double rope_fraction = 0.5;   // of the states, that turn
  double dt_min = 1e-3;         // steps at the start
  double dt_max = 0.1;
  double dt_init_floor = 1e-4;
  double A_floor = 1e-4;  // decay rates are at least this
  bool output_norm = false;
  std::int64_t mimo_rank = 1;  // keys, values and queries of a token; 1: SISO
  double norm_eps = 1e-5;
};

}  // namespace mixerbench::models
