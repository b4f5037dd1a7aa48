// The parts of log-linear attention on its fast path. R = B H sequences.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "kernels/log_linear/levels.h"

namespace mixerbench::kernels::log_linear {

// In the dtype of the computation; q is scaled.
struct LogLinearTokens {
  at::Tensor q, k;          // [R,S,K]
  at::Tensor v;             // [R,S,V]
  at::Tensor level_weight;  // [R,S,L]
  at::Tensor log_decay;     // [R,S] or undefined
};

// What tokens read of each other. The first stands at `first_place` of a span that starts at a
// multiple of its length, a power of two. -> [R,S,V]
at::Tensor AmongTokens(const LogLinearTokens& tokens, std::int64_t first_place,
                       std::int64_t chunk_size);

// What they read of the buckets before the first, which stands at `position`; states: [R,K,V] of
// each bucket, at least one. from_start: DecayFromStart. -> [R,S,V]
at::Tensor OfInitialLevels(const LogLinearTokens& x, const std::vector<Bucket>& buckets,
                           const std::vector<at::Tensor>& states, std::int64_t position,
                           const at::Tensor& from_start);

// The levels that the token after the last will find. -> [R,L,K,V]
at::Tensor FinalLevels(const LogLinearTokens& x, const std::vector<Bucket>& initial,
                       const std::vector<at::Tensor>& states, std::int64_t position);

// Of what was there before the first token, up to and including each: [R,S,1] or undefined.
at::Tensor DecayFromStart(const at::Tensor& log_decay);

}  // namespace mixerbench::kernels::log_linear
