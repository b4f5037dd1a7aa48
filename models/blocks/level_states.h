// The core of log-linear attention with its states: levels, and the position that says which there
// are.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include <ATen/core/Tensor.h>

#include "models/blocks/matrix_state_mixer.h"
#include "models/mixer.h"
#include "models/parameters.h"

namespace mixerbench::models {

// `configured`, or for 0 as many as the longest input needs. Throws ConfigError at num_levels when
// they hold fewer tokens.
std::int64_t NumLevels(std::int64_t configured, const std::string& where,
                       const MixerContext& context);

enum class LevelRule {
  kDecay,  // levels decay; the write gate multiplies v, and q.k has no scale
  kDelta,  // levels decay, and tokens erase from them; the write gate is beta
};

// A core with the states "levels" [H,L,K,V] and "position". What its gate function leaves in
// args.beta [B,T,H (1 + L)] is the write gate of each head, then the logits of level weights:
//   level_weight = softplus(level_scale * logit), parameter `level_scale` [H,L], ones.
// The layout's write gate is kOwn. Records level_weight, and as state all levels along K; by the
// delta rule erase [B,T,H], the norm of what a key recalls of the sum of the decayed levels.
MatrixCore LevelStates(LevelRule rule, std::int64_t num_levels, const MatrixLayout& layout,
                       const ParameterScope& scope);

// Before the first token, for MatrixProjection::add_initial_state.
void AddLevelPosition(State& state);

}  // namespace mixerbench::models
