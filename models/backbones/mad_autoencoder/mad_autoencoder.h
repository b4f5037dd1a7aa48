// The auto-encoder of MAD's compression task. See mad_autoencoder.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/fields.h"
#include "base/value.h"
#include "models/blocks/channel_mixer.h"
#include "models/parameters.h"

namespace mixerbench::models {

enum class GlobalPool { kLast, kMean };

struct MadAutoencoderConfig {
  std::int64_t d_model = 128;
  std::int64_t n_layers = 2;  // pairs of a mixer over time and one over channels, of the encoder
  Value sequence_mixer = Object{{"name", "attention"}, {"num_heads", 16}, {"position", "rope"}};
  ChannelMixerKind channel_mixer = ChannelMixerKind::kSwiglu;
  std::int64_t channel_mixer_dim = 0;  // inner width; 0: by the kind
  GlobalPool global_pool = GlobalPool::kLast;
  InitPolicy init_policy = InitPolicy::kMadReset;
};

}  // namespace mixerbench::models

template <>
struct mixerbench::EnumNames<mixerbench::models::GlobalPool> {
  using E = mixerbench::models::GlobalPool;
  static constexpr std::pair<E, std::string_view> kNames[] = {{E::kLast, "last"},
                                                              {E::kMean, "mean"}};
};
