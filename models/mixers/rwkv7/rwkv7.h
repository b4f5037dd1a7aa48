// RWKV-7. Maths and sources: rwkv7.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>

#include "base/fields.h"

namespace mixerbench::models {

enum class Rwkv7Init {
  kOfficial,  // of the paper's code
  kBackbone,  // projections, those of low rank too, as the backbone starts linear layers
};

struct Rwkv7Config {
  std::int64_t num_heads = 2;
  std::int64_t decay_low_rank_dim = 0;  // 0: by the formulas of the paper's code, as all four
  std::int64_t a_low_rank_dim = 0;      // of the in-context learning rate
  std::int64_t v_low_rank_dim = 0;      // of the value residual
  std::int64_t gate_low_rank_dim = 0;   // of the output gate
  double norm_eps = 1e-5;               // of the group norm, times the channels of a head
  Rwkv7Init init = Rwkv7Init::kOfficial;
};

}  // namespace mixerbench::models

template <>
struct mixerbench::EnumNames<mixerbench::models::Rwkv7Init> {
  using E = mixerbench::models::Rwkv7Init;
  static constexpr std::pair<E, std::string_view> kNames[] = {{E::kOfficial, "official"},
                                                              {E::kBackbone, "backbone"}};
};
