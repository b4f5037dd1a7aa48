// AdamW over all parameters of a model, and the learning rate over a run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "harness/train_config.h"
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
  // Tensors that are updated with one weight decay; entry i of every list belongs together.
  struct Group {
    double weight_decay = 0;
    std::vector<std::string> names;
    std::vector<at::Tensor> parameters, first_moments, second_moments;
  };
  // Those of a group that have a gradient.
  struct Lists {
    std::vector<bool> has_gradient;
    std::vector<at::Tensor> parameters, gradients, first_moments, second_moments;
  };

  void CollectGradients(const Group& group, Lists& lists) const;

  TrainConfig config_;
  std::vector<Group> groups_;
  std::vector<Lists> lists_;           // one for each group
  std::vector<at::Tensor> gradients_;  // of all groups
  std::vector<at::Tensor> steps_;      // the same scalar, once for each updated parameter
};

}  // namespace mixerbench::harness
