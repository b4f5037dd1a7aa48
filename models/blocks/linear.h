// y = W x (+ b) over the last axis, in the dtype of x.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/fields.h"
#include "kernels/layout/rows.h"
#include "kernels/linear/linear.h"
#include "models/parameters.h"

namespace mixerbench::models {

// U(+-1/sqrt(fan_in)): what kaiming-uniform with a = sqrt(5) gives.
Init FanInUniform(std::int64_t fan_in);

// How a linear layer starts where the backbone's policy keeps what it asks for.
enum class LinearInit {
  kBackbone,  // weight and bias FanInUniform
  kXavier,    // weight U(+-2^-2.5 sqrt(6 / (in + out))), Xavier-uniform with a gain; bias 0
};

// Rows of one weight that are a layer of their own in the sources.
struct LinearRows {
  std::int64_t out = 0;
  LinearInit init = LinearInit::kBackbone;
};

class Linear {
 public:
  // Parameters `weight` [out,in] and, when `bias`, `bias` [out]; the role is that of the weight.
  // `bias_init` stands in place of the bias's start by `init`.
  Linear(const ParameterScope& scope, std::int64_t in, std::int64_t out, bool bias,
         ParameterRole role = ParameterRole::kLinearWeight, LinearInit init = LinearInit::kBackbone,
         std::optional<Init> bias_init = std::nullopt);

  // Layers of the same input as one without a bias: `weight` [sum of out,in].
  Linear(const ParameterScope& scope, std::int64_t in, const std::vector<LinearRows>& layers);

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

template <>
struct mixerbench::EnumNames<mixerbench::models::LinearInit> {
  using E = mixerbench::models::LinearInit;
  static constexpr std::pair<E, std::string_view> kNames[] = {{E::kBackbone, "backbone"},
                                                              {E::kXavier, "xavier"}};
};
