// H3: a shift and a diagonal state space between gates. Maths and sources: h3.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace mixerbench::models {

struct H3Config {
  std::int64_t d_state = 64;  // N: reach of the shift, real numbers of the diagonal system, even
  std::int64_t head_dim = 1;  // channels of k that are crossed with as many of v
  double dt_min = 1e-3;       // time steps of the diagonal system at the start
  double dt_max = 1e-1;
};

}  // namespace mixerbench::models
