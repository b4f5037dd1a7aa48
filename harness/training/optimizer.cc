// SPDX-License-Identifier: Apache-2.0
#include "harness/training/optimizer.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "base/check.h"
#include "kernels/linear/linear.h"

namespace mixerbench::harness {

namespace {

// The rate after warm-up, `passed` of `whole` into the run.
double ScheduledRate(const TrainConfig& config, double passed, double whole) {
  const double range = config.lr - config.min_lr;
  switch (config.schedule) {
    case Schedule::kConstant:
      return config.lr;
    case Schedule::kCosine:
    case Schedule::kCosineEpoch:
      return config.min_lr + 0.5 * range * (1 + std::cos(std::numbers::pi * passed / whole));
    case Schedule::kLinear:
    case Schedule::kLinearEpoch:
      return config.min_lr + range * (1 - passed / whole);
  }
  Require(false, "unknown schedule");
  return 0;
}

bool HasOwnRate(const models::Parameter& parameter, const TrainConfig& config) {
  return config.ssm_lr > 0 && parameter.lr_group == kStateSpaceGroup;
}

// Whether it multiplies activations or is one of a table's rows: neither a bias nor a norm. What a
// class in Python holds has no role of its own and is judged by its axes.
bool IsMatrix(const models::Parameter& parameter) {
  using models::ParameterRole;
  switch (parameter.role) {
    case ParameterRole::kLinearBias:
    case ParameterRole::kConvBias:
    case ParameterRole::kNormWeight:
    case ParameterRole::kNormBias:
      return false;
    case ParameterRole::kLinearWeight:
    case ParameterRole::kOwnLinearWeight:
    case ParameterRole::kResidualOutputWeight:
    case ParameterRole::kConvWeight:
    case ParameterRole::kEmbedding:
    case ParameterRole::kOwnWeight:
    case ParameterRole::kSpecial:
      return parameter.tensor.dim() >= 2;
  }
  Require(false, "unknown parameter role");
  return false;
}

}  // namespace

double WeightDecayOf(const models::Parameter& parameter, const TrainConfig& config) {
  if (HasOwnRate(parameter, config)) return 0;
  const bool decays =
      config.decay_all_parameters || (parameter.weight_decay && IsMatrix(parameter));
  return decays ? config.weight_decay : 0;
}

double LearningRate(const TrainConfig& config, const StepCount& steps, std::int64_t step) {
  const bool by_epoch =
      config.schedule == Schedule::kCosineEpoch || config.schedule == Schedule::kLinearEpoch;
  // Warm-up is no part of what is scheduled from step to step.
  const std::int64_t passed =
      by_epoch ? step / steps.per_epoch : std::max<std::int64_t>(step - config.warmup_steps, 0);
  const std::int64_t whole =
      by_epoch ? config.num_epochs : std::max<std::int64_t>(steps.total - config.warmup_steps, 1);
  const double rate =
      ScheduledRate(config, static_cast<double>(passed), static_cast<double>(whole));
  if (step >= config.warmup_steps) return rate;
  return rate * static_cast<double>(step + 1) / static_cast<double>(config.warmup_steps);
}

AdamW::AdamW(const std::vector<models::Parameter>& parameters, const TrainConfig& config)
    : config_(config) {
  const at::NoGradGuard no_grad;
  for (const auto& parameter : parameters) {
    names_.push_back(parameter.name);
    tensors_.push_back(
        {.parameter = parameter.tensor,
         .first_moment = at::zeros_like(parameter.tensor),
         .second_moment = at::zeros_like(parameter.tensor),
         .weight_decay = WeightDecayOf(parameter, config),
         .rate_scale = HasOwnRate(parameter, config) ? config.ssm_lr / config.lr : 1});
    if (config.dtype != Dtype::kBf16 || parameter.narrow == nullptr) continue;
    std::vector<std::int64_t> shape = parameter.tensor.sizes().vec();
    shape[0] += kernels::kShadowPadding;
    const auto options = parameter.tensor.options().dtype(at::kBFloat16).requires_grad(false);
    shadows_.push_back({.parameter = parameter.tensor,
                        .version = static_cast<std::uint32_t>(parameter.tensor._version()),
                        .padded = at::zeros(shape, options),
                        .in_layer = parameter.narrow});
    tensors_.back().narrow = Unpadded(shadows_.back());
    tensors_.back().narrow.copy_(parameter.tensor);
  }
}

at::Tensor AdamW::Unpadded(const ShadowWeight& shadow) {
  return shadow.padded.narrow(0, 0, shadow.parameter.size(0));
}

void AdamW::RefreshShadowWeights() {
  const at::NoGradGuard no_grad;
  for (ShadowWeight& shadow : shadows_) {
    const auto version = static_cast<std::uint32_t>(shadow.parameter._version());
    if (version == shadow.version) continue;
    Unpadded(shadow).copy_(shadow.parameter);
    shadow.version = version;
  }
}

AdamW::ShadowScope::ShadowScope(const AdamW& optimizer) : optimizer_(optimizer) {
  for (const ShadowWeight& shadow : optimizer.shadows_) *shadow.in_layer = shadow.padded;
}

AdamW::ShadowScope::~ShadowScope() {
  for (const ShadowWeight& shadow : optimizer_.shadows_) shadow.in_layer->reset();
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
  std::vector<kernels::AdamWTensor> updated;
  for (const auto& tensor : tensors_) {
    if (!tensor.parameter.grad().defined()) continue;
    updated.push_back(tensor);
    updated.back().gradient = tensor.parameter.grad();
  }
  kernels::AdamWStep(updated, learning_rate, step,
                     {.beta1 = config_.beta1,
                      .beta2 = config_.beta2,
                      .eps = config_.eps,
                      .grad_clip = config_.grad_clip});
}

}  // namespace mixerbench::harness
