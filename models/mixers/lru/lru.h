// LRU: a diagonal complex recurrence in discrete time. Maths and sources: lru.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <numbers>

namespace mixerbench::models {

struct LruConfig {
  std::int64_t d_state = 64;                // complex modes
  double r_min = 0;                         // moduli of the factors at the start: a ring
  double r_max = 1;                         //
  double max_phase = 2 * std::numbers::pi;  // largest angle of the factors at the start
  double dropout = 0;                       // before and after the GELU
  bool tie_dropout = true;                  // one mask for all tokens of a sequence
};

}  // namespace mixerbench::models
