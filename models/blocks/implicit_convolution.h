// A causal convolution as long as the input, whose filter a small network makes of the position.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "kernels/core.h"
#include "models/blocks/linear.h"
#include "models/parameters.h"

namespace mixerbench::models {

// Hyena's features of positions 0..length-1 in units of `period` tokens, with one band: [length,3]
// float64.
at::Tensor PositionFeatures(std::int64_t length, std::int64_t period, at::Device device);

class ImplicitConvolution {
 public:
  ImplicitConvolution(const ParameterScope& scope, std::int64_t channels, std::int64_t max_seq_len);

  // conv(u) = filter * u + u for the last num_outputs of the inputs u [B,S,D], in float32 at least;
  // returns [B,num_outputs,D] in the dtype of u. S is at most max_seq_len.
  at::Tensor operator()(const at::Tensor& u, std::int64_t num_outputs,
                        kernels::ExecutionPath path) const;

  std::int64_t max_seq_len() const { return max_seq_len_; }

 private:
  at::Tensor Filter(std::int64_t length, kernels::ExecutionPath path) const;  // [length,D]

  std::int64_t max_seq_len_;
  Linear fc1_;
  Linear fc2_;
};

}  // namespace mixerbench::models
