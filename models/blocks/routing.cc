// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/routing.h"

#include <limits>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>

#include "kernels/routing/top_k.h"
#include "models/blocks/dtype.h"

namespace mixerbench::models {

at::Tensor MaskOf(const at::Tensor& places, std::int64_t n) {
  std::vector<std::int64_t> sizes = places.sizes().vec();
  sizes.back() = n;
  return at::zeros(sizes, places.options().dtype(at::kBool)).scatter_(-1, places, true);
}

Routing RouteBySoftmax(const at::Tensor& logits, std::int64_t k) {
  Routing routing;
  routing.scores = at::softmax(AtLeastFloat(logits), -1);
  routing.indices = kernels::TopK(routing.scores, k);
  const at::Tensor states = at::arange(logits.size(-1), routing.indices.options());
  routing.choices = routing.indices.unsqueeze(-1).eq(states).to(routing.scores.scalar_type());
  routing.selected = routing.choices.sum(-2);
  return routing;
}

Routing FirstChoices(const Routing& routing, std::int64_t k) {
  if (k == routing.indices.size(-1)) return routing;
  Routing first = routing;
  first.indices = routing.indices.narrow(-1, 0, k);
  first.choices = routing.choices.narrow(-2, 0, k);
  first.selected = first.choices.sum(-2);
  return first;
}

at::Tensor ExpertWeights(const at::Tensor& logits, std::int64_t k, bool leaves_out) {
  const at::Tensor scores = AtLeastFloat(logits);
  const at::Tensor others = MaskOf(kernels::TopK(scores, k), scores.size(-1)).logical_not();
  const double replacement = leaves_out ? -std::numeric_limits<double>::infinity() : 0.0;
  return at::softmax(scores.masked_fill(others, replacement), -1);
}

at::Tensor OfChoices(const Routing& routing, const at::Tensor& values) {
  return (values.unsqueeze(-2) * routing.choices).sum(-1);
}

at::Tensor OfStates(const at::Tensor& written, const at::Tensor& log_decay) {
  const at::Tensor channels = log_decay.dim() == 4 ? log_decay.unsqueeze(-1) : log_decay;
  const at::Tensor chosen = channels * written.unsqueeze(-1).unsqueeze(-1);
  return chosen.transpose(2, 3).flatten(3);
}

void TapRouting(const TapScope& taps, const Routing& routing, const at::Tensor& weights) {
  taps.Record("router", weights * routing.selected);
  taps.Record("router_scores", routing.scores);
  taps.Record("router_indices", routing.indices);
}

at::Tensor BalanceLoss(const Routing& routing) {
  const auto num_states = static_cast<double>(routing.choices.size(-1));
  const auto num_choices = static_cast<double>(routing.choices.size(-2));
  const at::Tensor loss = (routing.scores.mean(at::IntArrayRef({0, 1})) *
                           routing.selected.mean(at::IntArrayRef({0, 1})))
                              .sum();
  return (loss * (num_states / num_choices)).to(at::kFloat);
}

}  // namespace mixerbench::models
