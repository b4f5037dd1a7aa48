// The language model around Mamba blocks. See mamba_lm.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/value.h"
#include "models/blocks/channel_mixer.h"
#include "models/blocks/residual_layers.h"

namespace mixerbench::models {

struct MambaLmConfig {
  std::int64_t d_model = 64;
  std::int64_t n_layers = 2;
  Value sequence_mixer = Object{{"name", "mamba"}};
  ChannelMixerKind channel_mixer = ChannelMixerKind::kIdentity;
  std::int64_t channel_mixer_dim = 0;                // inner width; 0: by the kind
  std::int64_t channel_mixer_step = kMadSwigluStep;  // that of swiglu is a multiple of it
  StreamNorm final_norm = StreamNorm::kRms;
  bool residual_in_fp32 = true;
  bool tied_head = true;
  std::int64_t vocab_multiple = 8;  // rows of the embedding: the next multiple of it
};

}  // namespace mixerbench::models
