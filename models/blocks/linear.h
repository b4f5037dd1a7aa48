// y = W x (+ b) over the last axis, in the dtype of x.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "kernels/layout/rows.h"
#include "kernels/linear/linear.h"
#include "models/parameters.h"

namespace mixerbench::models {

// U(+-1/sqrt(fan_in)): what kaiming-uniform with a = sqrt(5) gives.
Init FanInUniform(std::int64_t fan_in);

class Linear {
 public:
  // Parameters `weight` [out,in] and, when `bias`, `bias` [out]; the role is that of the weight.
  Linear(const ParameterScope& scope, std::int64_t in, std::int64_t out, bool bias,
         ParameterRole role = ParameterRole::kLinearWeight);

  // x [...,in] -> [...,out].
  at::Tensor operator()(const at::Tensor& x, kernels::ExecutionPath path) const;
  // The result in blocks of neighbouring columns, without copies either way: [..., size], and
  // [M, size] for those that are wanted at the M tokens of `scored` alone
  // (kernels/linear/linear.h).
  std::vector<at::Tensor> Columns(const at::Tensor& x,
                                  const std::vector<kernels::ColumnBlock>& blocks,
                                  const kernels::ScoredPositions* scored,
                                  kernels::ExecutionPath path) const;

  const at::Tensor& weight() const { return weight_; }
  const at::Tensor& bias() const { return bias_; }
  // Copies of both in bf16, as far as they are lent at the moment (ParameterScope::Shadow).
  kernels::ShadowWeights Narrow() const;

 private:
  at::Tensor weight_;
  at::Tensor bias_;  // undefined without bias
  std::shared_ptr<const at::Tensor> shadow_weight_;
  std::shared_ptr<const at::Tensor> shadow_bias_;  // nullptr without bias
};

}  // namespace mixerbench::models
