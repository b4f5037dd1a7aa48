// AdamW over all parameters of a model, and the learning rate over a run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "harness/suite/step_count.h"
#include "harness/suite/train_config.h"
#include "kernels/optimizer/adamw.h"
#include "models/parameters.h"

namespace mixerbench::harness {

// Learning rate of a step, counted from 0 over a run of this length.
double LearningRate(const TrainConfig& config, const StepCount& steps, std::int64_t step);

// The decay of a parameter. With decay_all_parameters off, gate parameters, biases and norms have
// none, as in the groups of Mamba's and safari's trainers; parameters of state spaces with a rate
// of their own (ssm_lr) never have any.
double WeightDecayOf(const models::Parameter& parameter, const TrainConfig& config);

// Decoupled weight decay (Loshchilov and Hutter, arXiv 1711.05101). Rate and step come from the
// device, so that a step can be captured in a graph and nothing synchronises.
class AdamW {
 public:
  AdamW(const std::vector<models::Parameter>& parameters, const TrainConfig& config);

  // Clips by global norm when the configuration asks for it, then updates every parameter from its
  // gradient. Parameters of state spaces have a rate of their own when it asks for that. Parameters
  // without a gradient stay as they are. learning_rate, step: fp32 scalars on the device of the
  // parameters; `step` counts from 1.
  void Step(const at::Tensor& learning_rate, const at::Tensor& step);

  // Leaves every parameter without a gradient, so that the backward pass writes new ones instead of
  // adding to old ones.
  void ZeroGrad();

  // For training in bf16 it keeps shadow weights, rounded copies of the parameters for which layers
  // want one (models::Parameter::narrow); Step updates both. This makes them equal to parameters
  // that anybody else has changed since. It looks at them on the host: not to be captured in a
  // graph.
  void RefreshShadowWeights();

  // While it lives, layers compute with the shadow weights.
  class ShadowScope {
   public:
    explicit ShadowScope(const AdamW& optimizer);
    ~ShadowScope();
    ShadowScope(const ShadowScope&) = delete;
    ShadowScope& operator=(const ShadowScope&) = delete;

   private:
    const AdamW& optimizer_;
  };

  // First and second moments, as "first_moment.<parameter>" and "second_moment.<parameter>".
  std::vector<std::pair<std::string, at::Tensor>> state() const;

 private:
  struct ShadowWeight {
    at::Tensor parameter;
    std::uint32_t version;  // of the parameter when it was copied
    at::Tensor padded;      // bf16, zeros after the parameter's rows
    std::shared_ptr<at::Tensor> in_layer;
  };

  // The part of it that equals the parameter.
  static at::Tensor Unpadded(const ShadowWeight& shadow);

  TrainConfig config_;
  std::vector<std::string> names_;             // of the tensors
  std::vector<kernels::AdamWTensor> tensors_;  // gradients undefined
  std::vector<ShadowWeight> shadows_;
};

}  // namespace mixerbench::harness
