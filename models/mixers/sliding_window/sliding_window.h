// Softmax attention over the last tokens. Maths and sources: sliding_window.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "models/blocks/attention_heads.h"

namespace mixerbench::models {

struct SlidingWindowConfig {
  std::int64_t window = 64;  // keys that a query sees, its own among them
  std::int64_t num_heads = 2;
  std::int64_t num_kv_heads = 0;  // 0: num_heads
  PositionEncoding position = PositionEncoding::kNone;
  std::int64_t rotary_dim = 0;  // 0: the whole head
  bool qk_norm = false;         // RMSNorm of queries and keys, one weight for all heads
  double norm_eps = 1e-5;
  bool sinks = false;  // one learned score a head that belongs to no token
  bool qkv_bias = true;
  bool out_bias = true;
  double dropout = 0;  // of attention weights, in training
};

}  // namespace mixerbench::models
