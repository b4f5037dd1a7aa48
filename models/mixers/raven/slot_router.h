// Which slots a token writes, and how far they forget.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "base/fields.h"
#include "kernels/core.h"

namespace mixerbench::models::raven {

enum class SlotScore { kSigmoid, kSoftmax };

struct SlotRouterArgs {
  at::Tensor logits;  // [B,T,H,M], float32 or float64, noise included
  at::Tensor decay;   // [B,T,H,M] or, alike for all slots, [B,T,H,1]; <= 0: of the whole weight
  at::Tensor selection_bias = {};  // [H,M], beside the scores where slots are chosen; undefined: 0
  std::int64_t top_k = 1;
  double alpha = 1;
  bool renormalises = true;  // the weights of those that are chosen
  SlotScore score = SlotScore::kSigmoid;
};

struct SlotRouting {
  at::Tensor log_decay;  // [B,T,H,M]: decay times weight, 0 for slots that are not chosen
  at::Tensor scores;     // [B,T,H,M] m, without gradient: to look at
  at::Tensor weights;    // [B,T,H,M] r, without gradient
  at::Tensor indices;    // [B,T,H,top_k] of the chosen slots, the largest first
};

// m = score(logits), g = m for the top_k largest of m + selection_bias (of equal ones the first)
// and 0 elsewhere, r = g / (alpha (sum g + 1e-9)), or g / alpha where it does not renormalise,
// log_decay = decay r. Gradients, none of the bias: raven.md.
SlotRouting RouteSlots(const SlotRouterArgs& args, kernels::ExecutionPath path);

}  // namespace mixerbench::models::raven

template <>
struct mixerbench::EnumNames<mixerbench::models::raven::SlotScore> {
  using E = mixerbench::models::raven::SlotScore;
  static constexpr std::pair<E, std::string_view> kNames[] = {{E::kSigmoid, "sigmoid"},
                                                              {E::kSoftmax, "softmax"}};
};
