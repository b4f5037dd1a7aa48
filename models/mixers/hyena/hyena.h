// Hyena: gates around an implicit convolution as long as the input. Maths and sources: hyena.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace mixerbench::models {

struct HyenaConfig {
  std::int64_t inner_factor = 1;   // channels inside per channel of d_model
  std::int64_t proj_groups = 1;    // times that the columns of the projection are repeated
  std::int64_t head_dim = 1;       // channels that share a filter and are crossed with each other
  std::int64_t filter_width = 64;  // of the network that makes the filters
  double filter_frequency = 1;     // of its sines at the start
  std::int64_t num_experts = 0;    // groups of channels that a router weighs; 0: none
  std::int64_t expert_dim = 16;    // channels of each, instead of inner_factor
  std::int64_t active_experts = 2;
};

}  // namespace mixerbench::models
