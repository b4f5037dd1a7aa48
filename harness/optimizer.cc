// SPDX-License-Identifier: Apache-2.0
#include "harness/optimizer.h"

#include <cmath>
#include <numbers>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>

namespace mixerbench::harness {

double LearningRate(const TrainConfig& config, std::int64_t epoch) {
  if (config.schedule == Schedule::kConstant) return config.lr;
  const double phase =
      std::numbers::pi * static_cast<double>(epoch) / static_cast<double>(config.num_epochs);
  return config.min_lr + 0.5 * (config.lr - config.min_lr) * (1 + std::cos(phase));
}

AdamW::AdamW(const std::vector<models::Parameter>& parameters, const TrainConfig& config)
    : config_(config) {
  Group decayed;
  decayed.weight_decay = config.weight_decay;
  Group exempt;
  for (const auto& parameter : parameters) {
    const bool decay = config.decay_all_parameters || parameter.weight_decay;
    Group& group = decay ? decayed : exempt;
    group.names.push_back(parameter.name);
    group.parameters.push_back(parameter.tensor);
    group.first_moments.push_back(at::zeros_like(parameter.tensor));
    group.second_moments.push_back(at::zeros_like(parameter.tensor));
  }
  for (Group* group : {&decayed, &exempt}) {
    if (!group->parameters.empty()) groups_.push_back(std::move(*group));
  }
  lists_.resize(groups_.size());
}

void AdamW::ZeroGrad() {
  for (Group& group : groups_) {
    for (at::Tensor& parameter : group.parameters) parameter.mutable_grad().reset();
  }
}

std::vector<std::pair<std::string, at::Tensor>> AdamW::state() const {
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (const Group& group : groups_) {
    for (std::size_t i = 0; i < group.names.size(); ++i) {
      tensors.emplace_back("first_moment." + group.names[i], group.first_moments[i]);
      tensors.emplace_back("second_moment." + group.names[i], group.second_moments[i]);
    }
  }
  return tensors;
}

// The lists but for the gradients change only when another set of parameters has one.
void AdamW::CollectGradients(const Group& group, Lists& lists) const {
  std::vector<bool> has_gradient;
  lists.gradients.clear();
  for (const at::Tensor& parameter : group.parameters) {
    has_gradient.push_back(parameter.grad().defined());
    if (has_gradient.back()) lists.gradients.push_back(parameter.grad());
  }
  if (has_gradient == lists.has_gradient) return;
  lists.has_gradient = has_gradient;
  const auto select = [&](const std::vector<at::Tensor>& all) {
    std::vector<at::Tensor> selected;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (has_gradient[i]) selected.push_back(all[i]);
    }
    return selected;
  };
  lists.parameters = select(group.parameters);
  lists.first_moments = select(group.first_moments);
  lists.second_moments = select(group.second_moments);
}

void AdamW::Step(const at::Tensor& learning_rate, const at::Tensor& step) {
  const at::NoGradGuard no_grad;
  gradients_.clear();
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    CollectGradients(groups_[i], lists_[i]);
    gradients_.insert(gradients_.end(), lists_[i].gradients.begin(), lists_[i].gradients.end());
  }
  if (config_.grad_clip > 0 && !gradients_.empty()) {
    const at::Tensor norm = at::linalg_vector_norm(at::stack(at::_foreach_norm(gradients_)));
    at::_foreach_mul_(gradients_, (config_.grad_clip / (norm + 1e-6)).clamp_max(1.0));
  }
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    Lists& lists = lists_[i];
    if (lists.gradients.empty()) continue;
    steps_.assign(lists.gradients.size(), step);
    at::_fused_adamw_(lists.parameters, lists.gradients, lists.first_moments, lists.second_moments,
                      {}, steps_, learning_rate, config_.beta1, config_.beta2,
                      groups_[i].weight_decay, config_.eps, /*amsgrad=*/false,
                      /*maximize=*/false);
    lists.gradients.clear();
  }
  gradients_.clear();
}

}  // namespace mixerbench::harness
