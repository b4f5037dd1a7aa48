// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/stack.h>

#include "base/check.h"
#include "kernels/linear_attention/rwkv6/rwkv6.h"
#include "kernels/runtime/shape.h"

namespace mixerbench::kernels {

namespace rwkv6 {

PreparedRecurrence Prepare(const RecurrenceArgs& args, const at::Tensor& bonus) {
  const auto sizes = kernels::Prepare(args, DecayShape::kVector, /*has_beta=*/false);
  if (bonus.defined()) {
    RequireShape(bonus, {sizes.num_heads, sizes.head_k_dim}, "bonus");
    Require(bonus.scalar_type() == at::kFloat || bonus.scalar_type() == at::kDouble,
            "bonus must be float32 or float64");
    Require(bonus.device() == args.q.device(), "bonus is not on the device of q");
  }
  return sizes;
}

}  // namespace rwkv6

RecurrenceResult ReferenceRwkv6(const RecurrenceArgs& args, const at::Tensor& bonus) {
  const auto sizes = rwkv6::Prepare(args, bonus);
  // Of each token. Not by select, whose backward pass fills a tensor of all tokens for every one.
  const auto q = (args.q.to(sizes.compute_dtype) * sizes.scale).unbind(1);               // [B,H,K]
  const auto k = args.k.to(sizes.compute_dtype).unbind(1);                               // [B,H,K]
  const auto v = args.v.to(sizes.compute_dtype).unbind(1);                               // [B,H,V]
  const auto u = bonus.defined() ? bonus.to(sizes.compute_dtype).unsqueeze(-1) : bonus;  // [H,K,1]
  std::vector<at::Tensor> decay;  // [B,H,K,1]
  if (args.log_decay.defined()) {
    decay = at::exp(args.log_decay.to(sizes.compute_dtype)).unsqueeze(-1).unbind(1);
  }

  auto state = InitialState(args, sizes);  // [B,H,K,V]
  std::vector<at::Tensor> o;
  for (std::size_t t = 0; t < k.size(); ++t) {
    const auto write = k[t].unsqueeze(-1) * v[t].unsqueeze(-2);
    o.push_back(at::einsum("bhk,bhkv->bhv", {q[t], u.defined() ? state + u * write : state}));
    if (!decay.empty()) state = decay[t] * state;
    state = state + write;
  }
  return {.o = at::stack(o, 1).to(args.v.scalar_type()), .final_state = state};
}

}  // namespace mixerbench::kernels
