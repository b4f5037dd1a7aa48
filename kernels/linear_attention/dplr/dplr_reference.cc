// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/stack.h>

#include "kernels/linear_attention/dplr/dplr.h"

namespace mixerbench::kernels {

RecurrenceResult ReferenceDplr(const DplrArgs& given) {
  const auto sizes = dplr::Prepare(given);
  const DplrArgs args = PlainFactors(given);
  const auto& inputs = args.recurrence;
  // Of each token. Not by select, whose backward pass fills a tensor of all tokens for every one.
  const auto q = (inputs.q.to(sizes.compute_dtype) * sizes.scale).unbind(1);  // [B,H,K]
  const auto k = inputs.k.to(sizes.compute_dtype).unbind(1);                  // [B,H,K]
  const auto v = inputs.v.to(sizes.compute_dtype).unbind(1);                  // [B,H,V]
  const auto a = args.a.to(sizes.compute_dtype).unbind(1);                    // [B,H,K]
  const auto b = args.b.to(sizes.compute_dtype).unbind(1);                    // [B,H,K]
  std::vector<at::Tensor> decay;                                              // [B,H,K or 1,1]
  if (inputs.log_decay.defined()) {
    const auto g = inputs.log_decay.dim() == 3 ? inputs.log_decay.unsqueeze(-1) : inputs.log_decay;
    decay = at::exp(g.to(sizes.compute_dtype)).unsqueeze(-1).unbind(1);
  }

  auto state = InitialState(inputs, sizes);  // [B,H,K,V]
  std::vector<at::Tensor> o;
  for (std::size_t t = 0; t < k.size(); ++t) {
    const auto recalled = at::einsum("bhk,bhkv->bhv", {b[t], state});
    if (!decay.empty()) state = decay[t] * state;
    state = state - a[t].unsqueeze(-1) * recalled.unsqueeze(-2) +
            k[t].unsqueeze(-1) * v[t].unsqueeze(-2);
    o.push_back(at::einsum("bhk,bhkv->bhv", {q[t], state}));
  }
  return {.o = at::stack(o, 1).to(inputs.v.scalar_type()), .final_state = state};
}

}  // namespace mixerbench::kernels
