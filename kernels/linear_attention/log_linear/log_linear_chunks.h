// The parts of log-linear attention on its fast path. R = B H sequences.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "kernels/linear_attention/log_linear/levels.h"

namespace mixerbench::kernels::log_linear {

// In the dtype of the computation; q is scaled.
struct LogLinearTokens {
  at::Tensor q, k;          // [R,S,K]
  at::Tensor v;             // [R,S,V]
  at::Tensor level_weight;  // [R,S,L]
  at::Tensor log_decay;     // [R,S] or undefined
  at::Tensor beta = {};     // [R,S], of the delta rule alone
};

// The tokens at their places of a span whose length is a power of two, with zeros, which write and
// forget nothing, in front and behind.
LogLinearTokens Padded(const LogLinearTokens& tokens, std::int64_t first_place);

// Of pairs of tokens of a block, [M,C,C]: the weight with which the query's token reads the level
// of the other's.
at::Tensor PairWeights(const LogLinearTokens& padded, std::int64_t block);

// What tokens read of each other. The first stands at `first_place` of a span that starts at a
// multiple of its length, a power of two. -> [R,S,V]
at::Tensor AmongTokens(const LogLinearTokens& tokens, std::int64_t first_place,
                       std::int64_t chunk_size);

// The same by the delta rule, with what links the tokens to what was there before the first and to
// what is there after the last: with a state S before, o = reads S, and S becomes
// kept S + writes^T v.
struct DeltaTokens {
  at::Tensor o;       // [R,S,V], of each other
  at::Tensor reads;   // [R,S,K]
  at::Tensor writes;  // [R,S,K]
  at::Tensor kept;    // [R,K,K]
};
// wants_ends: all but o is wanted.
DeltaTokens AmongDeltaTokens(const LogLinearTokens& tokens, std::int64_t first_place,
                             std::int64_t chunk_size, bool wants_ends);

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
