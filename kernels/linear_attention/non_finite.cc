// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/non_finite.h"

#include <limits>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/linalg_vector_norm.h>

namespace mixerbench::kernels {

NonFiniteTokens::NonFiniteTokens(std::initializer_list<at::Tensor> inputs,
                                 const at::Tensor& log_decay) {
  const at::NoGradGuard no_grad;
  const auto add = [&](const at::Tensor& x) {
    const at::Tensor largest =
        x.dim() == 3 ? x.abs()
                     : at::linalg_vector_norm(x, std::numeric_limits<double>::infinity(), {-1});
    const at::Tensor zero_or_nan = largest.mul(0).to(at::kFloat);
    mark_ = mark_.defined() ? mark_.add_(zero_or_nan) : zero_or_nan;
  };
  for (const at::Tensor& x : inputs) {
    if (x.defined()) add(x);
  }
  if (log_decay.defined()) add(log_decay.clamp_min(-1));
  mark_ = mark_.cumsum(1);
  if (mark_.is_cpu()) exist_ = mark_.select(1, mark_.size(1) - 1).isnan().any().item<bool>();
}

at::Tensor NonFiniteTokens::Clear(const at::Tensor& x) const {
  if (!x.defined()) return x;
  const at::Tensor marked = mark_.isnan();
  return x.masked_fill(x.dim() == 3 ? marked : marked.unsqueeze(-1), 0);
}

}  // namespace mixerbench::kernels
