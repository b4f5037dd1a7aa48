// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/stack.h>

#include "kernels/linear_attention/sila/sila.h"
#include "kernels/linear_attention/sila/sila_steps.h"

namespace mixerbench::kernels {

SilaResult ReferenceSila(const SilaArgs& args) {
  const auto sizes = sila::PrepareSila(args);
  const auto dtype = sizes.compute_dtype;
  // Of each token. Not by select, whose backward pass fills a tensor of all tokens for every one.
  const auto q = (args.q.to(dtype) * sizes.scale).unbind(1);      // [B,H,K]
  const auto k = args.k.to(dtype).unbind(1);                      // [B,H,K]
  const auto v = args.v.to(dtype).unbind(1);                      // [B,H,V]
  const auto write_logit = args.write_logit.to(dtype).unbind(1);  // [B,H]
  const auto forget_logit = args.forget_logit.to(dtype).unbind(1);
  std::vector<at::Tensor> forced(q.size());
  if (args.forced_write_gate.defined()) forced = args.forced_write_gate.to(dtype).unbind(1);
  const auto write_memory = sila::OfEveryHead(args.write_memory);
  const auto forget_memory = sila::OfEveryHead(args.forget_memory);

  auto state = sila::InitialSilaState(args, sizes);  // [B,H,K,V]
  std::vector<at::Tensor> o, write_gates, log_decays, recalls;
  for (std::size_t t = 0; t < q.size(); ++t) {
    const auto recalled = at::einsum("bhk,bhkv->bhv", {k[t], state});
    const auto with_memory = [&](const at::Tensor& logit, const at::Tensor& memory) {
      if (!memory.defined()) return logit;
      return logit + at::einsum("ghv,bhv->bg", {memory.to(dtype), recalled});
    };
    const auto beta = sila::WriteGate(with_memory(write_logit[t], write_memory), forced[t]);
    const auto log_gamma = sila::LogForget(with_memory(forget_logit[t], forget_memory));
    const auto gamma = at::exp(log_gamma).unsqueeze(-1);
    o.push_back(at::einsum("bhk,bhkv->bhv", {q[t], state}));
    const auto erased = args.decayed_erase ? gamma * recalled : recalled;
    const auto write = beta.unsqueeze(-1) * (v[t] - erased);
    state = gamma.unsqueeze(-1) * state + k[t].unsqueeze(-1) * write.unsqueeze(-2);
    if (args.wants_gates) {
      write_gates.push_back(beta.detach());
      log_decays.push_back(log_gamma.detach());
      recalls.push_back(recalled.detach());
    }
  }
  SilaResult result{.o = at::stack(o, 1).to(args.v.scalar_type()), .final_state = state};
  if (args.wants_gates) {
    result.write_gate = at::stack(write_gates, 1);
    result.log_decay = at::stack(log_decays, 1);
    result.recalled = at::stack(recalls, 1);
  }
  return result;
}

}  // namespace mixerbench::kernels
