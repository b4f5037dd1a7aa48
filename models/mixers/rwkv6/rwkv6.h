// RWKV-6 (Finch). Maths and sources: rwkv6.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace mixerbench::models {

struct Rwkv6Config {
  std::int64_t num_heads = 4;
  std::int64_t mix_low_rank_dim = 32;    // of each of the five data-dependent token shifts
  std::int64_t decay_low_rank_dim = 64;  // of the decay logits
  double norm_eps = 1e-5;                // of the norm of a head's output divided by 8
};

}  // namespace mixerbench::models
