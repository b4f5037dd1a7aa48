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
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
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
  Group decayed{config.weight_decay, {}, {}, {}, {}};
  Group exempt{0, {}, {}, {}, {}};
  for (const auto& parameter : parameters) {
    const bool decay = config.decay_all_parameters || parameter.weight_decay;
    Group& group = decay ? decayed : exempt;
    group.parameters.push_back(parameter.tensor);
    group.first_moments.push_back(at::zeros_like(parameter.tensor));
    group.second_moments.push_back(at::zeros_like(parameter.tensor));
    group.steps.push_back(
        at::zeros({}, at::TensorOptions().dtype(at::kFloat).device(parameter.tensor.device())));
  }
  for (Group* group : {&decayed, &exempt}) {
    if (!group->parameters.empty()) groups_.push_back(std::move(*group));
  }
  lr_ =
      at::scalar_tensor(config.lr, groups_.front().parameters.front().options().dtype(at::kFloat));
}

void AdamW::SetLearningRate(double lr) { lr_.fill_(lr); }

void AdamW::ZeroGrad() {
  for (Group& group : groups_) {
    for (at::Tensor& parameter : group.parameters) parameter.mutable_grad().reset();
  }
}

void AdamW::Step() {
  const at::NoGradGuard no_grad;
  struct Updated {
    const Group* group;
    std::vector<at::Tensor> parameters, gradients, first, second, steps;
  };
  std::vector<Updated> updates;
  std::vector<at::Tensor> all_gradients;
  for (const Group& group : groups_) {
    Updated update{&group, {}, {}, {}, {}, {}};
    for (std::size_t i = 0; i < group.parameters.size(); ++i) {
      const at::Tensor& gradient = group.parameters[i].grad();
      if (!gradient.defined()) continue;
      update.parameters.push_back(group.parameters[i]);
      update.gradients.push_back(gradient);
      update.first.push_back(group.first_moments[i]);
      update.second.push_back(group.second_moments[i]);
      update.steps.push_back(group.steps[i]);
      all_gradients.push_back(gradient);
    }
    updates.push_back(std::move(update));
  }
  if (config_.grad_clip > 0 && !all_gradients.empty()) {
    const at::Tensor norm = at::linalg_vector_norm(at::stack(at::_foreach_norm(all_gradients)));
    at::_foreach_mul_(all_gradients, (config_.grad_clip / (norm + 1e-6)).clamp_max(1.0));
  }
  for (const Updated& update : updates) {
    if (update.parameters.empty()) continue;
    for (const at::Tensor& step : update.steps) step.add_(1);
    at::_fused_adamw_(update.parameters, update.gradients, update.first, update.second, {},
                      update.steps, lr_, config_.beta1, config_.beta2, update.group->weight_decay,
                      config_.eps, /*amsgrad=*/false, /*maximize=*/false);
  }
}

}  // namespace mixerbench::harness
