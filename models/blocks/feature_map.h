// Feature maps of linear attention, applied to queries and keys head by head.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <ATen/core/Tensor.h>

#include "base/fields.h"
#include "models/blocks/linear.h"
#include "models/parameters.h"

namespace mixerbench::models {

enum class FeatureMapKind {
  kIdentity,            // x
  kElu1,                // elu(x) + 1
  kRelu,                // max(x, 0)
  kSilu,                // x sigmoid(x)
  kElementwiseProduct,  // (W1 x + b1) * (W2 x + b2), trainable
  kT2r,                 // relu(W x + b), trainable
  kHedgehog,            // softmax([2(Wx+b), -2(Wx+b)]), trainable, starts at W = I
  kDpfp,                // r * roll(r, j) for j = 1..4, r = relu([x, -x])
  kTaylor,              // 2nd-order expansion: phi(q).phi(k) = 1 + s + s^2/2, s = q.k/sqrt(D)
};

class FeatureMap {
 public:
  // Trainable maps put their parameters, shared by all heads, into `scope`.
  FeatureMap(FeatureMapKind kind, std::int64_t input_dim, const ParameterScope& scope);

  // x [...,input_dim] -> [...,output_dim], dtype of x.
  at::Tensor operator()(const at::Tensor& x, kernels::ExecutionPath path) const;

  std::int64_t output_dim() const;

 private:
  FeatureMapKind kind_;
  std::int64_t input_dim_;
  std::optional<Linear> linear_;
  at::Tensor hedgehog_weight_;
  at::Tensor hedgehog_bias_;
};

// A map that has as many features as its input has channels; ConfigError at `option` for others.
// Its parameters, if any, are `feature_map` of `scope`.
FeatureMap ChannelFeatureMap(FeatureMapKind kind, std::int64_t input_dim,
                             const ParameterScope& scope, const std::string& option);

}  // namespace mixerbench::models

template <>
struct mixerbench::EnumNames<mixerbench::models::FeatureMapKind> {
  using E = mixerbench::models::FeatureMapKind;
  static constexpr std::pair<E, std::string_view> kNames[] = {
      {E::kIdentity, "identity"},
      {E::kElu1, "elu1"},
      {E::kRelu, "relu"},
      {E::kSilu, "silu"},
      {E::kElementwiseProduct, "elementwise_product"},
      {E::kT2r, "t2r"},
      {E::kHedgehog, "hedgehog"},
      {E::kDpfp, "dpfp"},
      {E::kTaylor, "taylor"}};
};
