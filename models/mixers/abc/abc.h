// Attention with bounded-memory control. Maths and sources: abc.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/fields.h"
#include "models/blocks/norms.h"

namespace mixerbench::models {

// What the writes to the slots are normalised over.
enum class AbcNorm {
  kCumulative,  // earlier tokens, slot by slot: a slot is a running mean
  kNone,        // the slots, token by token: slots add up
};

struct AbcConfig {
  std::int64_t num_heads = 2;
  double expand_k = 0.5;  // key channels per channel of d_model
  double expand_v = 1;
  std::int64_t num_slots = 0;  // of a head; 0: as many as it has key channels
  AbcNorm norm = AbcNorm::kCumulative;
  bool rotary = true;          // rotary embedding of q and k
  std::int64_t conv_size = 0;  // of q, k, v, followed by silu; 0: no convolution
  OutputGate output_gate = OutputGate::kSilu;
  std::int64_t gate_low_rank_dim = 0;  // of the output gate's projection; 0: full
  double norm_eps = 1e-5;
};

}  // namespace mixerbench::models

template <>
struct mixerbench::EnumNames<mixerbench::models::AbcNorm> {
  using E = mixerbench::models::AbcNorm;
  static constexpr std::pair<E, std::string_view> kNames[] = {{E::kCumulative, "cumulative"},
                                                              {E::kNone, "none"}};
};
