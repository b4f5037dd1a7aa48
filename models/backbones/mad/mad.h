// The language model of MAD (mechanistic architecture design). See mad.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/value.h"
#include "models/blocks/channel_mixer.h"
#include "models/blocks/residual_layers.h"
#include "models/parameters.h"

namespace mixerbench::models {

struct MadConfig {
  std::int64_t d_model = 128;
  std::int64_t n_layers = 2;  // pairs of a mixer over time and one over channels
  Value sequence_mixer = Object{{"name", "attention"}, {"num_heads", 16}, {"position", "rope"}};
  ChannelMixerKind channel_mixer = ChannelMixerKind::kSwiglu;
  std::int64_t channel_mixer_dim = 0;  // inner width; 0: by the kind
  StreamNorm norm = StreamNorm::kRms;
  InitPolicy init_policy = InitPolicy::kMad;
};

}  // namespace mixerbench::models
