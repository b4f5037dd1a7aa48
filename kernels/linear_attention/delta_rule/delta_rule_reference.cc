// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/stack.h>

#include "kernels/linear_attention/delta_rule/delta_rule.h"

namespace mixerbench::kernels {

RecurrenceResult ReferenceDeltaRule(const RecurrenceArgs& args) {
  const auto sizes = Prepare(args, DecayShape::kScalar, /*has_beta=*/true);
  // Of each token. Not by select, whose backward pass fills a tensor of all tokens for every one.
  const auto q = (args.q.to(sizes.compute_dtype) * sizes.scale).unbind(1);      // [B,H,K]
  const auto k = args.k.to(sizes.compute_dtype).unbind(1);                      // [B,H,K]
  const auto v = args.v.to(sizes.compute_dtype).unbind(1);                      // [B,H,V]
  const auto beta = args.beta.to(sizes.compute_dtype).unsqueeze(-1).unbind(1);  // [B,H,1]
  std::vector<at::Tensor> decay;                                                // [B,H,1,1]
  if (args.log_decay.defined()) {
    decay = at::exp(args.log_decay.to(sizes.compute_dtype)).unsqueeze(-1).unsqueeze(-1).unbind(1);
  }

  auto state = InitialState(args, sizes);  // [B,H,K,V]
  std::vector<at::Tensor> o;
  for (std::size_t t = 0; t < k.size(); ++t) {
    if (!decay.empty()) state = decay[t] * state;
    const auto recalled = at::einsum("bhk,bhkv->bhv", {k[t], state});
    const auto y = beta[t] * (v[t] - recalled);
    state = state + k[t].unsqueeze(-1) * y.unsqueeze(-2);
    o.push_back(at::einsum("bhk,bhkv->bhv", {q[t], state}));
  }
  return {.o = at::stack(o, 1).to(args.v.scalar_type()), .final_state = state};
}

}  // namespace mixerbench::kernels
