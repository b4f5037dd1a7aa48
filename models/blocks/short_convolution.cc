// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/short_convolution.h"

#include <ATen/ops/addcmul.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/zeros.h>

#include "base/check.h"
#include "models/blocks/linear.h"

namespace mixerbench::models {

ShortConvolution::ShortConvolution(const ParameterScope& scope, std::int64_t channels,
                                   std::int64_t width, bool bias)
    : weight_(
          scope.Add("weight", {channels, width}, ParameterRole::kConvWeight, FanInUniform(width))) {
  if (bias) bias_ = scope.Add("bias", {channels}, ParameterRole::kConvBias, FanInUniform(width));
}

ShortConvolution::Output ShortConvolution::operator()(const at::Tensor& x,
                                                      const at::Tensor& history) const {
  Require(x.dim() == 3 && x.size(2) == channels(), "short convolution: x is [B,T,channels]");
  const std::int64_t seq_len = x.size(1);
  const at::Tensor padded = history.defined() ? at::cat({history.to(x.scalar_type()), x}, 1)
                                              : at::constant_pad_nd(x, {0, 0, width() - 1, 0});
  const at::Tensor taps = weight_.to(x.scalar_type()).t();  // [W,C]
  at::Tensor y = padded.narrow(1, 0, seq_len) * taps[0];
  for (std::int64_t m = 1; m < width(); ++m) {
    y = at::addcmul(y, padded.narrow(1, m, seq_len), taps[m]);
  }
  if (bias_.defined()) y = y + bias_.to(x.scalar_type());
  return {y, padded.narrow(1, seq_len, width() - 1)};
}

at::Tensor ShortConvolution::InitialHistory(std::int64_t batch_size) const {
  return at::zeros({batch_size, width() - 1, channels()}, weight_.options().requires_grad(false));
}

}  // namespace mixerbench::models
