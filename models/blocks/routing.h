// Choices of the largest scores, the same on every device and in every run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "models/taps.h"

namespace mixerbench::models {

// places [..., k] among N, all different -> [..., N] bool.
at::Tensor MaskOf(const at::Tensor& places, std::int64_t n);

// Which K of P states each token reads and writes.
struct Routing {
  at::Tensor scores;    // [B,T,P], float32 at least
  at::Tensor indices;   // [B,T,K]: kernels::TopK of the scores
  at::Tensor choices;   // [B,T,K,P]: 1 where the j-th choice is that state, dtype of the scores
  at::Tensor selected;  // [B,T,P]: 1 where the state is chosen
};

// Softmax over logits [B,T,P], in float32 at least, and its k largest.
Routing RouteBySoftmax(const at::Tensor& logits, std::int64_t k);

// The same with the k largest alone, of those that were chosen.
Routing FirstChoices(const Routing& routing, std::int64_t k);

// The weights [...,P] of P experts, float32 at least: softmax over the logits, those of all but the
// k largest replaced by 0 (as MAD has it: what is not chosen still weighs e^0) or left out.
at::Tensor ExpertWeights(const at::Tensor& logits, std::int64_t k, bool leaves_out);

// values [B,T,P] of the chosen states, [B,T,K].
at::Tensor OfChoices(const Routing& routing, const at::Tensor& values);

// Log decays as taps show them, 0 where a state is not written (`written` [B,T,P]): log_decay
// [B,T,S,H] or [B,T,S,H,K] of each state, S = P, or of all alike, S = 1 -> [B,T,H,P] or
// [B,T,H,P K], the states beside each other.
at::Tensor OfStates(const at::Tensor& written, const at::Tensor& log_decay);

// Records `router` [B,T,P]: the weights where they are chosen and 0 elsewhere; `router_scores` and
// `router_indices` [B,T,K].
void TapRouting(const TapScope& taps, const Routing& routing, const at::Tensor& weights);

// (P/K) sum_i p_i f_i: p_i the mean score of state i and f_i the share of tokens that chose it. 1
// when all states are chosen equally often; gradients through p alone.
at::Tensor BalanceLoss(const Routing& routing);

}  // namespace mixerbench::models
