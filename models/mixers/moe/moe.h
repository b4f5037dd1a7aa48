// MAD's mixture of experts over channels. Maths and sources: moe.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace mixerbench::models {

struct MoeConfig {
  std::int64_t num_experts = 8;
  std::int64_t active_experts = 2;  // that a token chooses
  std::int64_t expert_dim = 16;     // inner channels of each
  bool drop_unchosen = false;       // else what is not chosen keeps the weight of a score of 0
};

}  // namespace mixerbench::models
