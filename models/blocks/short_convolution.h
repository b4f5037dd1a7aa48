// Causal depthwise convolution of width W over time, and what follows it in the same pass.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "kernels/core.h"
#include "models/parameters.h"

namespace mixerbench::models {

struct ConvolutionOptions {
  bool silu = false;  // after the convolution
  // The first norm_channels channels are L2-normalised after that, in heads of norm_dim.
  std::int64_t norm_channels = 0;
  std::int64_t norm_dim = 0;
};

class ShortConvolution {
 public:
  // Parameters `weight` [channels,width] (the last tap meets the current token) and `bias`.
  ShortConvolution(const ParameterScope& scope, std::int64_t channels, std::int64_t width,
                   bool bias);

  struct Output {
    at::Tensor y;        // [B,T,C], dtype of x
    at::Tensor history;  // [B,W-1,C]: the inputs that the next call needs
  };

  // z_t[c] = sum_m weight[c,m] x_{t-W+1+m}[c] (+ bias[c]), the inputs before t = 0 being `history`
  // [B,W-1,C]; undefined: zeros. y_t is z_t after what `options` ask for.
  Output operator()(const at::Tensor& x, const at::Tensor& history, kernels::ExecutionPath path,
                    const ConvolutionOptions& options = {}) const;

  // The history before the first token.
  at::Tensor InitialHistory(std::int64_t batch_size) const;

  std::int64_t channels() const { return weight_.size(0); }
  std::int64_t width() const { return weight_.size(1); }

 private:
  at::Tensor LastInputs(const at::Tensor& inputs) const;

  at::Tensor weight_;
  at::Tensor bias_;  // undefined without bias
};

}  // namespace mixerbench::models
