// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>

#include "kernels/linear_attention/gsa/gsa.h"

namespace mixerbench::kernels {

GsaResult ReferenceGsa(const GsaArgs& args) {
  const auto sizes = gsa::Prepare(args);
  // Of each token. Not by select, whose backward pass fills a tensor of all tokens for every one.
  const auto q = (args.q.to(sizes.compute_dtype) * sizes.scale).unbind(1);  // [B,H,K]
  const auto k = args.k.to(sizes.compute_dtype).unbind(1);                  // [B,H,K]
  const auto v = args.v.to(sizes.compute_dtype).unbind(1);                  // [B,H,V]
  const auto s = args.slot_writes.to(sizes.compute_dtype).unbind(1);        // [B,H,M]
  std::vector<at::Tensor> decay;                                            // [B,H,M]
  if (args.log_decay.defined()) {
    decay = at::exp(args.log_decay.to(sizes.compute_dtype)).unbind(1);
  }

  auto keys = gsa::InitialKeys(args, sizes);      // [B,H,K,M]
  auto values = gsa::InitialValues(args, sizes);  // [B,H,M,V]
  std::vector<at::Tensor> o;
  std::vector<at::Tensor> probs;
  for (std::size_t t = 0; t < k.size(); ++t) {
    if (!decay.empty()) {
      keys = keys * decay[t].unsqueeze(-2);
      values = decay[t].unsqueeze(-1) * values;
    }
    keys = keys + k[t].unsqueeze(-1) * s[t].unsqueeze(-2);
    values = values + s[t].unsqueeze(-1) * v[t].unsqueeze(-2);
    const auto p = at::softmax(at::einsum("bhk,bhkm->bhm", {q[t], keys}), -1);
    probs.push_back(p.detach());
    o.push_back(at::einsum("bhm,bhmv->bhv", {p, values}));
  }
  return {.o = at::stack(o, 1).to(args.v.scalar_type()),
          .final_keys = keys,
          .final_values = values,
          .slot_probs = at::stack(probs, 1)};
}

}  // namespace mixerbench::kernels
