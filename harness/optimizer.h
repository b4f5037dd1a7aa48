// AdamW over all parameters of a model, and the learning rate over a run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "harness/train_config.h"
#include "kernels/fused/adamw.h"
#include "models/parameters.h"

namespace mixerbench::harness {

// Learning rate in one epoch; zoology's schedule is constant inside an epoch.
double LearningRate(const TrainConfig& config, std::int64_t epoch);

// Decoupled weight decay (Loshchilov and Hutter, arXiv 1711.05101). Rate and step come from the
// device, so that a step can be captured in a graph and nothing synchronises.
class AdamW {
 public:
  AdamW(const std::vector<models::Parameter>& parameters, const TrainConfig& config);

  // Clips by global norm when the configuration asks for it, then updates every parameter from its
  // gradient. Parameters without a gradient stay as they are. learning_rate, step: fp32 scalars on
  // the device of the parameters; `step` counts from 1.
  void Step(const at::Tensor& learning_rate, const at::Tensor& step);

  // Leaves every parameter without a gradient, so that the backward pass writes new ones instead of
  // adding to old ones.
  void ZeroGrad();

  // First and second moments, as "first_moment.<parameter>" and "second_moment.<parameter>".
  std::vector<std::pair<std::string, at::Tensor>> state() const;

 private:
  TrainConfig config_;
  std::vector<std::string> names_;                    // of the tensors
  std::vector<kernels::fused::AdamWTensor> tensors_;  // gradients undefined
};

}  // namespace mixerbench::harness
