// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/softmax_attention/decay_sums.h"

#include <ATen/TensorOperators.h>

namespace mixerbench::kernels::softmax_attention {
namespace {

// What a reset counts as: -infinity has no differences. Any weight behind it is zero.
constexpr double kStrongestDecay = -1e4;

}  // namespace

at::Tensor SumLogDecay(const at::Tensor& log_decay) {
  return log_decay.clamp_min(kStrongestDecay)
      .to(at::kDouble)
      .cumsum(1)
      .transpose(1, 2)
      .contiguous();
}

SplitTensor Split(const at::Tensor& x, at::ScalarType dtype) {
  const at::Tensor coarse = x.to(dtype);
  return {coarse, (x - coarse).to(dtype)};
}

at::Tensor LogDecayGradient(const at::Tensor& d_sums, const at::Tensor& log_decay) {
  const auto d_log_decay =
      d_sums.to(at::kDouble).flip(-1).cumsum(-1).flip(-1).transpose(1, 2).to(d_sums.scalar_type());
  return d_log_decay.masked_fill(log_decay.le(kStrongestDecay), 0);
}

}  // namespace mixerbench::kernels::softmax_attention
