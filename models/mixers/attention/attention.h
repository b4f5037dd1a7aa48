// Softmax attention over a key-value cache. Maths and sources: attention.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/fields.h"

namespace mixerbench::models {

enum class PositionEncoding { kNone, kRope };

struct AttentionConfig {
  std::int64_t num_heads = 2;
  std::int64_t num_kv_heads = 0;  // 0: num_heads
  PositionEncoding position = PositionEncoding::kNone;
  std::int64_t rotary_dim = 0;  // 0: the whole head
  bool qkv_bias = true;
  bool out_bias = true;
  double dropout = 0;  // of attention weights, in training
};

}  // namespace mixerbench::models

template <>
struct mixerbench::EnumNames<mixerbench::models::PositionEncoding> {
  using E = mixerbench::models::PositionEncoding;
  static constexpr std::pair<E, std::string_view> kNames[] = {{E::kNone, "none"},
                                                              {E::kRope, "rope"}};
};
