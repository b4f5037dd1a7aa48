// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>

#include "kernels/linear_attention/titans/titans.h"
#include "kernels/linear_attention/titans/titans_steps.h"

namespace mixerbench::kernels {

TitansResult ReferenceTitans(const TitansArgs& args) {
  const auto sizes = titans::PrepareTitans(args);
  const auto tokens = titans::AllTokens(args, sizes);
  const auto q = (args.q.to(sizes.compute_dtype) * sizes.scale).unbind(1);  // [B,H,K]
  const auto k = tokens.k.unbind(1);                                        // [B,H,K]
  const auto v = tokens.v.unbind(1);                                        // [B,H,V]
  const auto of_matrices = [](const at::Tensor& x) {                        // [B,H,1,1]
    return x.unsqueeze(-1).unsqueeze(-1).unbind(1);
  };
  const auto decay = of_matrices(at::exp(tokens.log_decay));
  const auto eta = of_matrices(at::exp(tokens.log_momentum));
  const auto step = of_matrices(tokens.step);
  const auto num_before = static_cast<std::size_t>(tokens.num_before);
  const auto mini_batch = static_cast<std::size_t>(args.mini_batch_size);

  const auto initial = titans::InitialMemory(args, sizes).unbind(2);
  auto memory = initial[0], momentum = initial[1];  // [B,H,K,V]
  at::Tensor first_memory = memory, first_momentum = momentum;
  std::vector<at::Tensor> o, surprise;
  for (std::size_t t = 0; t < k.size(); ++t) {
    if (t % mini_batch == 0) {
      first_memory = memory;
      first_momentum = momentum;
    }
    const auto error = at::einsum("bhk,bhkv->bhv", {k[t], first_memory}) - v[t];
    momentum = eta[t] * momentum - 2 * step[t] * k[t].unsqueeze(-1) * error.unsqueeze(-2);
    memory = decay[t] * memory + momentum;
    if (t < num_before) continue;
    o.push_back(at::einsum("bhk,bhkv->bhv", {q[t - num_before], memory}));
    surprise.push_back(at::linalg_vector_norm(error.detach(), 2, {-1}));
  }
  const bool is_full = k.size() % mini_batch == 0;
  const auto last =
      is_full ? at::stack({memory, momentum}, 2) : at::stack({first_memory, first_momentum}, 2);
  return {.o = at::stack(o, 1).to(args.v.scalar_type()),
          .final_state = titans::StateAfter(tokens, last, args.mini_batch_size),
          .surprise = at::stack(surprise, 1)};
}

}  // namespace mixerbench::kernels
