// SPDX-License-Identifier: Apache-2.0
#include "harness/optimizer.h"

#include <cmath>
#include <numbers>

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
  for (const auto& parameter : parameters) {
    const bool decay = config.decay_all_parameters || parameter.weight_decay;
    names_.push_back(parameter.name);
    tensors_.push_back({.parameter = parameter.tensor,
                        .first_moment = at::zeros_like(parameter.tensor),
                        .second_moment = at::zeros_like(parameter.tensor),
                        .weight_decay = decay ? config.weight_decay : 0});
  }
}

void AdamW::ZeroGrad() {
  for (auto& tensor : tensors_) tensor.parameter.mutable_grad().reset();
}

std::vector<std::pair<std::string, at::Tensor>> AdamW::state() const {
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    tensors.emplace_back("first_moment." + names_[i], tensors_[i].first_moment);
    tensors.emplace_back("second_moment." + names_[i], tensors_[i].second_moment);
  }
  return tensors;
}

void AdamW::Step(const at::Tensor& learning_rate, const at::Tensor& step) {
  std::vector<kernels::fused::AdamWTensor> updated;
  for (const auto& tensor : tensors_) {
    if (!tensor.parameter.grad().defined()) continue;
    updated.push_back(tensor);
    updated.back().gradient = tensor.parameter.grad();
  }
  kernels::fused::AdamWStep(updated, learning_rate, step,
                            {.beta1 = config_.beta1,
                             .beta2 = config_.beta2,
                             .eps = config_.eps,
                             .grad_clip = config_.grad_clip});
}

}  // namespace mixerbench::harness
