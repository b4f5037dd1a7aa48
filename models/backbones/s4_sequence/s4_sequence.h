// The sequence model around S4 layers. See s4_sequence.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/value.h"
#include "models/blocks/residual_layers.h"
#include "models/parameters.h"

namespace mixerbench::models {

struct S4SequenceConfig {
  std::int64_t d_model = 256;
  std::int64_t n_layers = 4;
  Value sequence_mixer = Object{{"name", "s4"}};
  StreamNorm norm = StreamNorm::kLayer;
  double dropout = 0;  // of what joins the residual stream, in training
  InitPolicy init_policy = InitPolicy::kDefault;
};

}  // namespace mixerbench::models
