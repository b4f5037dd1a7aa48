// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/stack.h>

#include "kernels/scalar_decay/scalar_decay.h"

namespace mixerbench::kernels {

RecurrenceResult ReferenceScalarDecay(const RecurrenceArgs& args) {
  const auto sizes = Prepare(args, DecayShape::kScalar, /*has_beta=*/false);
  const auto q = args.q.to(sizes.compute_dtype) * sizes.scale;
  const auto k = args.k.to(sizes.compute_dtype);
  const auto v = args.v.to(sizes.compute_dtype);
  at::Tensor decay;  // [B,T,H,1,1]
  if (args.log_decay.defined()) {
    decay = at::exp(args.log_decay.to(sizes.compute_dtype)).unsqueeze(-1).unsqueeze(-1);
  }

  auto state = InitialState(args, sizes);  // [B,H,K,V]
  std::vector<at::Tensor> o;
  for (std::int64_t t = 0; t < sizes.seq_len; ++t) {
    if (decay.defined()) state = decay.select(1, t) * state;
    state = state + k.select(1, t).unsqueeze(-1) * v.select(1, t).unsqueeze(-2);
    o.push_back(at::einsum("bhk,bhkv->bhv", {q.select(1, t), state}));
  }
  return {.o = at::stack(o, 1).to(args.v.scalar_type()), .final_state = state};
}

}  // namespace mixerbench::kernels
