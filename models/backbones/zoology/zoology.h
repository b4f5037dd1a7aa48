// The language model of zoology, on which MQAR curves are published. See zoology.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/value.h"
#include "models/blocks/channel_mixer.h"

namespace mixerbench::models {

enum class Positions { kNone, kLearned };

struct ZoologyConfig {
  std::int64_t d_model = 128;
  std::int64_t n_layers = 2;
  Value sequence_mixer = Object{{"name", "attention"}};
  ChannelMixerKind state_mixer = ChannelMixerKind::kIdentity;
  std::int64_t state_mixer_expand = 4;  // inner width per channel of d_model
  Positions positions = Positions::kNone;
  double embed_dropout = 0.1;
  double resid_dropout = 0;
};

}  // namespace mixerbench::models

template <>
struct mixerbench::EnumNames<mixerbench::models::Positions> {
  using E = mixerbench::models::Positions;
  static constexpr std::pair<E, std::string_view> kNames[] = {{E::kNone, "none"},
                                                              {E::kLearned, "learned"}};
};
