// AdamW over all parameters of a model, and the learning rate over a run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "harness/step_count.h"
#include "harness/train_config.h"
#include "kernels/fused/adamw.h"
#include "models/parameters.h"

namespace mixerbench::harness {

// Learning rate of a step, counted from 0 over a run of this length.
double LearningRate(const TrainConfig& config, const StepCount& steps, std::int64_t step);

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

  // For training in bf16 it keeps copies of the parameters for which layers want one
  // (models::Parameter::narrow); Step updates both. This makes them equal to parameters that
  // anybody else has changed since. It looks at them on the host: not to be captured in a graph.
  void RefreshCopies();

  // Lends the copies to the layers until it is destroyed.
  class Loan {
   public:
    explicit Loan(const AdamW& optimizer);
    ~Loan();
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;

   private:
    const AdamW& optimizer_;
  };

  // First and second moments, as "first_moment.<parameter>" and "second_moment.<parameter>".
  std::vector<std::pair<std::string, at::Tensor>> state() const;

 private:
  struct Copy {
    at::Tensor parameter;
    std::uint32_t version;  // of the parameter when it was copied
    at::Tensor padded;      // bf16, zeros after the parameter's rows
    std::shared_ptr<at::Tensor> loan;
  };

  // The part of the copy that equals the parameter.
  static at::Tensor Copied(const Copy& copy);

  TrainConfig config_;
  std::vector<std::string> names_;                    // of the tensors
  std::vector<kernels::fused::AdamWTensor> tensors_;  // gradients undefined
  std::vector<Copy> copies_;
};

}  // namespace mixerbench::harness
