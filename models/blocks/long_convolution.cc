// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/long_convolution.h"

#include <algorithm>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/fft_irfft.h>
#include <ATen/ops/fft_rfft.h>

#include "base/check.h"
#include "kernels/convolution/direct_convolution.h"
#include "kernels/linear_attention/non_finite.h"
#include "kernels/runtime/differentiable.h"

namespace mixerbench::models {
namespace {

// Transforms run over the last axis, where libraries want it: [B,D,S] is made once on the way in
// and left once on the way out, with the padding.
at::Tensor ByFft(const at::Tensor& u, const at::Tensor& filter, std::int64_t num_outputs) {
  const std::int64_t length = u.size(1);
  const std::int64_t fft_length = FftLength(length + filter.size(0) - 1);
  const auto transform = [fft_length](const at::Tensor& x) { return at::fft_rfft(x, fft_length); };
  const auto inverse = [fft_length](const at::Tensor& x) { return at::fft_irfft(x, fft_length); };
  at::Tensor y;
  {
    const at::NoGradGuard no_grad;
    const at::Tensor product = transform(u.mT()).mul_(transform(filter.t()));
    y = inverse(product).narrow(2, length - num_outputs, num_outputs).mT().contiguous();
  }
  kernels::SetBackward(
      "long_convolution", {u, filter}, {y}, {u, filter},
      [=](const kernels::BackwardArgs& args) -> std::vector<at::Tensor> {
        const at::Tensor &saved_u = args.saved[0], &saved_filter = args.saved[1];
        // The outputs that nobody asked for have no gradient.
        const at::Tensor dy =
            at::constant_pad_nd(args.grads[0].mT(), {length - num_outputs, fft_length - length});
        const at::Tensor spectrum = transform(dy);
        at::Tensor du;
        at::Tensor dfilter;
        if (args.wanted[0]) {
          const at::Tensor conjugate = transform(saved_filter.t()).conj();
          du = inverse(spectrum * conjugate).narrow(2, 0, length).mT().contiguous();
        }
        if (args.wanted[1]) {
          const at::Tensor conjugate = transform(saved_u.mT()).conj();
          dfilter = inverse((spectrum * conjugate).sum(0)).narrow(1, 0, saved_filter.size(0)).t();
        }
        return {du, dfilter};
      });
  return y;
}

}  // namespace

std::int64_t FftLength(std::int64_t length) {
  for (std::int64_t candidate = std::max<std::int64_t>(2, length + length % 2);; candidate += 2) {
    std::int64_t rest = candidate;
    for (const std::int64_t prime : {2, 3, 5}) {
      while (rest % prime == 0) rest /= prime;
    }
    if (rest == 1) return candidate;
  }
}

at::Tensor LongConvolution(const at::Tensor& u, const at::Tensor& filter, std::int64_t num_outputs,
                           kernels::ExecutionPath path) {
  Require(u.dim() == 3 && filter.dim() == 2 && filter.size(1) == u.size(2),
          "long convolution: u is [B,S,D], the filter [L,D]");
  Require(1 <= num_outputs && num_outputs <= u.size(1),
          "long convolution: some of the tokens are outputs");
  Require(u.scalar_type() == filter.scalar_type() &&
              (u.scalar_type() == at::kFloat || u.scalar_type() == at::kDouble),
          "long convolution: u and the filter are both float32 or both float64");
  const at::Tensor used = filter.narrow(0, 0, std::min(filter.size(0), u.size(1)));
  const bool is_fast = path == kernels::ExecutionPath::kFast;
  if (is_fast && kernels::PrefersDirectConvolution(u, used, num_outputs)) {
    return kernels::DirectConvolution(u, used, num_outputs, path);
  }
  // Both other forms multiply later inputs by zeros or add them up to zero.
  const kernels::NonFiniteTokens tokens({u});
  const at::Tensor finite = tokens.exist() ? tokens.Clear(u) : u;
  const at::Tensor y = is_fast ? ByFft(finite, used, num_outputs)
                               : kernels::DirectConvolution(finite, used, num_outputs, path);
  if (!tokens.exist()) return y;
  return y + tokens.mark().narrow(1, u.size(1) - num_outputs, num_outputs);
}

}  // namespace mixerbench::models
