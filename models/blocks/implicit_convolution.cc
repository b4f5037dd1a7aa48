// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/implicit_convolution.h"

#include <algorithm>
#include <numbers>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/stack.h>

#include "base/check.h"
#include "models/blocks/dtype.h"
#include "models/blocks/long_convolution.h"

namespace mixerbench::models {
namespace {

constexpr std::int64_t kFeatures = 3;
constexpr std::int64_t kHidden = 16;
constexpr double kFrequency = 1e-4;  // of the only band

}  // namespace

at::Tensor PositionFeatures(std::int64_t length, std::int64_t period, at::Device device) {
  const at::Tensor position = at::arange(length, at::TensorOptions(device).dtype(at::kDouble));
  const auto tokens = static_cast<double>(period);
  const at::Tensor angle = position * (2 * std::numbers::pi * kFrequency / tokens);
  return at::stack({position / std::max(1.0, tokens - 1), angle.cos(), -angle.sin()}, -1);
}

ImplicitConvolution::ImplicitConvolution(const ParameterScope& scope, std::int64_t channels,
                                         std::int64_t max_seq_len)
    : max_seq_len_(max_seq_len),
      fc1_(scope.Child("fc1"), kFeatures, kHidden, /*bias=*/true),
      fc2_(scope.Child("output"), kHidden, channels, /*bias=*/true) {}

at::Tensor ImplicitConvolution::Filter(std::int64_t length, kernels::ExecutionPath path) const {
  // Time is measured in units of max_seq_len, so that the filter does not depend on the input.
  const at::Tensor weight = AtLeastFloat(fc1_.weight());
  const at::Tensor features =
      PositionFeatures(length, max_seq_len_, weight.device()).to(weight.scalar_type());
  return fc2_(at::relu(fc1_(features, path)), path);
}

at::Tensor ImplicitConvolution::operator()(const at::Tensor& u, std::int64_t num_outputs,
                                           kernels::ExecutionPath path) const {
  const std::int64_t length = u.size(1);
  Require(length <= max_seq_len_, "the implicit filter of base_conv is " +
                                      std::to_string(max_seq_len_) + " tokens long, the input " +
                                      std::to_string(length));
  const at::Tensor wide = AtLeastFloat(u);
  const at::Tensor filter = Filter(length, path).to(wide.scalar_type());
  const at::Tensor last = wide.narrow(1, length - num_outputs, num_outputs);
  return (LongConvolution(wide, filter, num_outputs, path) + last).to(u.scalar_type());
}

}  // namespace mixerbench::models
