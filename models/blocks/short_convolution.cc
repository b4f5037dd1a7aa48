// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/short_convolution.h"

#include <numeric>
#include <utility>

#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/zeros.h>

#include "base/check.h"
#include "kernels/convolution/short_convolution.h"
#include "models/blocks/linear.h"

namespace mixerbench::models {
namespace {

std::int64_t NumFilters(const std::vector<SharedFilters>& filters) {
  return std::accumulate(
      filters.begin(), filters.end(), std::int64_t{0},
      [](std::int64_t sum, const SharedFilters& run) { return sum + run.channels; });
}

}  // namespace

ShortConvolution::ShortConvolution(const ParameterScope& scope, std::int64_t channels,
                                   std::int64_t width, bool bias)
    : channels_(channels),
      weight_(
          scope.Add("weight", {channels, width}, ParameterRole::kConvWeight, FanInUniform(width))) {
  if (bias) bias_ = scope.Add("bias", {channels}, ParameterRole::kConvBias, FanInUniform(width));
}

ShortConvolution::ShortConvolution(const ParameterScope& scope, std::vector<SharedFilters> filters,
                                   std::int64_t width)
    : ShortConvolution(scope, NumFilters(filters), width, /*bias=*/false) {
  for (const SharedFilters& run : filters) channels_ += (run.times - 1) * run.channels;
  shared_ = std::move(filters);
}

ShortConvolution::Output ShortConvolution::operator()(const at::Tensor& x,
                                                      const at::Tensor& history,
                                                      kernels::ExecutionPath path,
                                                      const ConvolutionOptions& options) const {
  Require(x.dim() == 3 && x.size(2) == channels(), "short convolution: x is [B,T,channels]");
  const at::Tensor inputs = history.defined() ? at::cat({history.to(x.scalar_type()), x}, 1) : x;
  at::Tensor y = kernels::ShortConvolution({.x = inputs,
                                            .weight = Filters(),
                                            .bias = bias_,
                                            .silu = options.silu,
                                            .norm_channels = options.norm_channels,
                                            .norm_dim = options.norm_dim},
                                           path);
  if (history.defined()) y = y.narrow(1, width() - 1, x.size(1));
  return {y, LastInputs(inputs)};
}

at::Tensor ShortConvolution::Filters() const {
  if (shared_.empty()) return weight_;
  std::vector<at::Tensor> filters;
  std::int64_t first = 0;
  for (const SharedFilters& run : shared_) {
    filters.push_back(weight_.narrow(0, first, run.channels).repeat({run.times, 1}));
    first += run.channels;
  }
  return at::cat(filters);
}

at::Tensor ShortConvolution::LastInputs(const at::Tensor& inputs) const {
  const std::int64_t num_old = width() - 1;
  const at::Tensor padded = inputs.size(1) >= num_old
                                ? inputs
                                : at::constant_pad_nd(inputs, {0, 0, num_old - inputs.size(1), 0});
  return padded.narrow(1, padded.size(1) - num_old, num_old);
}

at::Tensor ShortConvolution::InitialHistory(std::int64_t batch_size) const {
  return at::zeros({batch_size, width() - 1, channels()}, weight_.options().requires_grad(false));
}

}  // namespace mixerbench::models
