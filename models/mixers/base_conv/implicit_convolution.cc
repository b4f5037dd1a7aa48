// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/base_conv/implicit_convolution.h"

#include <algorithm>
#include <numbers>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/fft_irfft.h>
#include <ATen/ops/fft_rfft.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/stack.h>

#include "base/check.h"
#include "kernels/non_finite.h"
#include "models/blocks/dtype.h"

namespace mixerbench::models::base_conv {
namespace {

constexpr std::int64_t kFeatures = 3;
constexpr std::int64_t kHidden = 16;
constexpr double kFrequency = 1e-4;  // of the only band of Hyena's positional features

}  // namespace

at::Tensor ReferenceCausalConvolution(const at::Tensor& u, const at::Tensor& filter,
                                      std::int64_t num_outputs) {
  const std::int64_t length = u.size(1);
  const auto options = filter.options().dtype(at::kLong).requires_grad(false);
  const at::Tensor source = at::arange(length, options);  // [S]
  const at::Tensor target = at::arange(length - num_outputs, length, options).unsqueeze(1);
  const at::Tensor lag = target - source;  // [T,S]
  const at::Tensor toeplitz =
      filter.index_select(0, lag.clamp_min(0).flatten()).view({num_outputs, length, -1}) *
      (lag >= 0).unsqueeze(-1);  // [T,S,D]
  return at::einsum("tsd,bsd->btd", {toeplitz, u});
}

at::Tensor FftCausalConvolution(const at::Tensor& u, const at::Tensor& filter,
                                std::int64_t num_outputs) {
  const std::int64_t length = u.size(1);
  const std::int64_t fft_length = 2 * length;  // no wrap-around
  const at::Tensor product = at::fft_rfft(u, fft_length, 1) * at::fft_rfft(filter, fft_length, 0);
  return at::fft_irfft(product, fft_length, 1).narrow(1, length - num_outputs, num_outputs);
}

ImplicitConvolution::ImplicitConvolution(const ParameterScope& scope, std::int64_t channels,
                                         std::int64_t max_seq_len)
    : max_seq_len_(max_seq_len),
      fc1_(scope.Child("fc1"), kFeatures, kHidden, /*bias=*/true),
      fc2_(scope.Child("output"), kHidden, channels, /*bias=*/true) {}

at::Tensor ImplicitConvolution::Filter(std::int64_t length, kernels::ExecutionPath path) const {
  const auto options = AtLeastFloat(fc1_.weight()).options().requires_grad(false);
  // Time is measured in units of max_seq_len, so that the filter does not depend on the input.
  const at::Tensor position = at::arange(length, options.dtype(at::kDouble));
  const auto period = static_cast<double>(max_seq_len_);
  const at::Tensor angle = position * (2 * std::numbers::pi * kFrequency / period);
  const at::Tensor features =
      at::stack({position / std::max(1.0, period - 1), angle.cos(), -angle.sin()}, -1);
  return fc2_(at::relu(fc1_(features.to(options), path)), path);
}

at::Tensor ImplicitConvolution::operator()(const at::Tensor& u, std::int64_t num_outputs,
                                           kernels::ExecutionPath path) const {
  const std::int64_t length = u.size(1);
  Require(length <= max_seq_len_, "the implicit filter of base_conv is " +
                                      std::to_string(max_seq_len_) + " tokens long, the input " +
                                      std::to_string(length));
  const at::Tensor wide = AtLeastFloat(u);
  const at::Tensor filter = Filter(length, path).to(wide.scalar_type());
  // Both convolutions multiply later inputs by zeros or add them up to zero.
  const kernels::NonFiniteTokens tokens({wide});
  const at::Tensor finite = tokens.exist() ? tokens.Clear(wide) : wide;
  const at::Tensor convolved = path == kernels::ExecutionPath::kReference
                                   ? ReferenceCausalConvolution(finite, filter, num_outputs)
                                   : FftCausalConvolution(finite, filter, num_outputs);
  const auto last = [&](const at::Tensor& x) {
    return x.narrow(1, length - num_outputs, num_outputs);
  };
  const at::Tensor y = convolved + last(wide);
  return (tokens.exist() ? y + last(tokens.mark()) : y).to(u.scalar_type());
}

}  // namespace mixerbench::models::base_conv
