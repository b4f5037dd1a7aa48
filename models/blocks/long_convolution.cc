// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/long_convolution.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/fft_irfft.h>
#include <ATen/ops/fft_rfft.h>

namespace mixerbench::models {
namespace {

at::Tensor ByDefinition(const at::Tensor& u, const at::Tensor& filter, std::int64_t num_outputs) {
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

at::Tensor ByFft(const at::Tensor& u, const at::Tensor& filter, std::int64_t num_outputs) {
  const std::int64_t length = u.size(1);
  const std::int64_t fft_length = 2 * length;  // no wrap-around
  const at::Tensor product = at::fft_rfft(u, fft_length, 1) * at::fft_rfft(filter, fft_length, 0);
  return at::fft_irfft(product, fft_length, 1).narrow(1, length - num_outputs, num_outputs);
}

}  // namespace

at::Tensor LongConvolution(const at::Tensor& u, const at::Tensor& filter, std::int64_t num_outputs,
                           kernels::ExecutionPath path) {
  return path == kernels::ExecutionPath::kReference ? ByDefinition(u, filter, num_outputs)
                                                    : ByFft(u, filter, num_outputs);
}

}  // namespace mixerbench::models
