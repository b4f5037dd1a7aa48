// Causal depthwise convolution of width W over time, and what follows it in the same pass.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

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

// Filters for a run of neighbouring channels, which `times` such runs in a row have in common.
struct SharedFilters {
  std::int64_t channels = 0;
  std::int64_t times = 1;
};

class ShortConvolution {
 public:
  // Parameters `weight` [channels,width] (the last tap meets the current token) and `bias`.
  ShortConvolution(const ParameterScope& scope, std::int64_t channels, std::int64_t width,
                   bool bias);

  // Runs that have filters in common: `weight` [sum of channels,width] without repetition, whose
  // gradient sums over the runs; no bias.
  ShortConvolution(const ParameterScope& scope, std::vector<SharedFilters> filters,
                   std::int64_t width);

  struct Output {
    at::Tensor y;        // [B,T,C], dtype of x
    at::Tensor history;  // [B,W-1,C]: the inputs that the next call needs
  };

  // z_t[c] = sum_m w[c,m] x_{t-W+1+m}[c] (+ bias[c]) with the filter w[c] of that channel, the
  // inputs before t = 0 being `history` [B,W-1,C]; undefined: zeros. y_t is z_t after what
  // `options` ask for.
  Output operator()(const at::Tensor& x, const at::Tensor& history, kernels::ExecutionPath path,
                    const ConvolutionOptions& options = {}) const;

  // The history before the first token.
  at::Tensor InitialHistory(std::int64_t batch_size) const;

  std::int64_t channels() const { return channels_; }
  std::int64_t width() const { return weight_.size(1); }

 private:
  at::Tensor Filters() const;  // [channels,width]
  at::Tensor LastInputs(const at::Tensor& inputs) const;

  std::int64_t channels_;
  std::vector<SharedFilters> shared_;  // empty: a filter for each channel
  at::Tensor weight_;
  at::Tensor bias_;  // undefined without bias
};

}  // namespace mixerbench::models
