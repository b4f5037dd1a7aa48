// A mixer by itself, as `mixer run` and `mixer check` are asked for it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "base/value.h"
#include "io/value_path.h"
#include "models/mixer.h"

namespace mixerbench::harness {

// What surrounds the mixer may be set beside its own options. Sizes are 0 where nobody set them.
struct MixerSetup {
  Object config;  // with "name"
  std::int64_t d_model = 0;
  std::int64_t max_seq_len = 0;
  std::int64_t layer_index = 0;
  std::int64_t num_layers = 0;
};

// `name` of a mixer of `registry`, or FILE.py:Class of one in Python. Throws ConfigError.
MixerSetup ParseMixerSetup(const std::string& name, const io::Settings& settings,
                           const models::MixerRegistry& registry);

}  // namespace mixerbench::harness
