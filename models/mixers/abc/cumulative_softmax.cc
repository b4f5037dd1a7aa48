// Backward, with z = log Z, dz_t = -ds_t s_t - dg_t + dg_{t+1} and R_t = sum_{i >= t} dz_i / Z_i:
//   du_t = ds_t s_t + exp(u_t) R_t.
// Z grows, so the terms of R_t are added from the smallest factor 1 / Z_i on.
// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/abc/cumulative_softmax.h"

#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/flip.h>
#include <ATen/ops/log.h>
#include <ATen/ops/log1p.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "kernels/runtime/differentiable.h"

namespace mixerbench::models::abc {
namespace {

using kernels::BackwardArgs;

CumulativeSoftmaxResult Reference(const at::Tensor& u, const at::Tensor& initial_sums) {
  at::Tensor sums = initial_sums;
  std::vector<at::Tensor> writes, log_decay;
  for (const at::Tensor& logit : u.unbind(1)) {
    const at::Tensor weight = at::exp(logit);
    const at::Tensor next = sums + weight;
    writes.push_back(weight / next);
    log_decay.push_back(at::log(at::where(sums == 0, next, sums)) - at::log(next));
    sums = next;
  }
  return {at::stack(writes, 1), at::stack(log_decay, 1), sums};
}

// Saved: u, Z, s, the initial sums.
std::vector<at::Tensor> Backward(const BackwardArgs& args) {
  const at::Tensor &u = args.saved[0], &sums = args.saved[1], &writes = args.saved[2];
  const at::Tensor& initial_sums = args.saved[3];
  const auto or_zeros = [](const at::Tensor& grad, const at::Tensor& like) {
    return grad.defined() ? grad : at::zeros_like(like);
  };
  const at::Tensor d_log_writes = or_zeros(args.grads[0], writes) * writes;
  at::Tensor d_log_decay = or_zeros(args.grads[1], writes);
  const at::Tensor is_empty = (initial_sums == 0).unsqueeze(1);  // before the first token
  const at::Tensor first = d_log_decay.narrow(1, 0, 1).masked_fill(is_empty, 0);
  d_log_decay = at::cat({first, d_log_decay.narrow(1, 1, u.size(1) - 1)}, 1);
  const at::Tensor next =
      at::constant_pad_nd(d_log_decay.narrow(1, 1, u.size(1) - 1), {0, 0, 0, 0, 0, 1});  // dg_{t+1}
  at::Tensor d_sums = (next - d_log_decay - d_log_writes) / sums;
  if (args.grads[2].defined()) d_sums.select(1, u.size(1) - 1).add_(args.grads[2]);
  const at::Tensor later = at::flip(at::cumsum(at::flip(d_sums, {1}), 1), {1});
  at::Tensor d_initial;
  if (args.wanted[1]) {
    const at::Tensor divisor = initial_sums.masked_fill(is_empty.squeeze(1), 1);
    d_initial = later.select(1, 0) + first.squeeze(1) / divisor;
  }
  return {d_log_writes + at::exp(u) * later, d_initial};
}

CumulativeSoftmaxResult Scans(const at::Tensor& u, const at::Tensor& initial_sums) {
  CumulativeSoftmaxResult result;
  at::Tensor sums;
  {
    const at::NoGradGuard no_grad;
    const at::Tensor weights = at::exp(u);
    const at::Tensor start = initial_sums.unsqueeze(1);
    sums = at::cumsum(weights, 1) + start;
    const at::Tensor before = at::cat({start, sums.narrow(1, 0, u.size(1) - 1)}, 1);
    result.writes = weights / sums;
    // log(1 - s), bounded by s = 1/2, and log(2 Z_{t-1} / Z_t), bounded by 0: where little is
    // written the second is exactly 0 and costs the first no digits.
    result.log_decay =
        (at::log1p(-result.writes.clamp_max(0.5)) + at::log(2 * (before / sums).clamp_max(0.5)))
            .masked_fill_(before == 0, 0);
    result.final_sums = sums.select(1, u.size(1) - 1).clone();
  }
  kernels::SetBackward("cumulative_softmax", {u, initial_sums},
                       {result.writes, result.log_decay, result.final_sums},
                       {u, sums, result.writes, initial_sums}, Backward);
  return result;
}

}  // namespace

CumulativeSoftmaxResult CumulativeSoftmax(const at::Tensor& u, const at::Tensor& initial_sums,
                                          kernels::ExecutionPath path) {
  const at::Tensor start = initial_sums.defined()
                               ? initial_sums.to(u.scalar_type())
                               : at::zeros({u.size(0), u.size(2), u.size(3)}, u.options());
  return path == kernels::ExecutionPath::kReference ? Reference(u, start) : Scans(u, start);
}

}  // namespace mixerbench::models::abc
