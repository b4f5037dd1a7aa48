// Forgetting attention: softmax attention whose scores decay. Maths and sources: fox.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "models/blocks/attention_heads.h"

namespace mixerbench::models {

enum class ForgetGate {
  kFull,      // of the token: log sigmoid(W_f x + b)
  kBiasOnly,  // learned, the same for all tokens
  kFixed,     // a constant of the head
};

struct FoxConfig {
  std::int64_t num_heads = 2;
  std::int64_t num_kv_heads = 0;  // 0: num_heads
  PositionEncoding position = PositionEncoding::kNone;
  std::int64_t rotary_dim = 0;  // 0: the whole head
  ForgetGate forget_gate = ForgetGate::kFull;
  double min_timescale = 0;      // in tokens: head 0 starts with log decay -1 / this; 0: log(1/2)
  double max_timescale = 0;      // of the last head
  bool qk_norm = false;          // RMSNorm of queries and keys, a weight for each head
  bool kv_shift = false;         // keys and values are mixed with those of the token before
  bool use_output_norm = false;  // RMSNorm of each head's output
  bool use_output_gate = false;  // times sigmoid(W_g x)
  double norm_eps = 1e-5;
  double dropout = 0;  // of attention weights, in training
};

}  // namespace mixerbench::models

template <>
struct mixerbench::EnumNames<mixerbench::models::ForgetGate> {
  using E = mixerbench::models::ForgetGate;
  static constexpr std::pair<E, std::string_view> kNames[] = {
      {E::kFull, "full"}, {E::kBiasOnly, "bias_only"}, {E::kFixed, "fixed"}};
};
