// AdamW over all parameters of a model, and the learning rate over a run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "harness/train_config.h"
#include "models/parameters.h"

namespace mixerbench::harness {

// Learning rate in one epoch; zoology's schedule is constant inside an epoch.
double LearningRate(const TrainConfig& config, std::int64_t epoch);

// Decoupled weight decay (Loshchilov and Hutter, arXiv 1711.05101). The learning rate and the step
// counts live on the device, so that a step can be captured in a graph and nothing synchronises.
class AdamW {
 public:
  AdamW(const std::vector<models::Parameter>& parameters, const TrainConfig& config);

  // Queues a copy of the rate to the device.
  void SetLearningRate(double lr);

  // Clips by global norm when the configuration asks for it, then updates every parameter from its
  // gradient. Parameters without a gradient stay as they are.
  void Step();

  void ZeroGrad();

 private:
  struct Group {
    double weight_decay = 0;
    std::vector<at::Tensor> parameters, first_moments, second_moments, steps;
  };

  TrainConfig config_;
  std::vector<Group> groups_;
  at::Tensor lr_;  // scalar, fp32
};

}  // namespace mixerbench::harness
