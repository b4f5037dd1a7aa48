// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include "kernels/linear_attention/log_linear/levels.h"
#include "kernels/linear_attention/log_linear/log_linear.h"

namespace mixerbench::kernels {

LogLinearResult ReferenceLogLinear(const LogLinearArgs& args) {
  const auto sizes = log_linear::PrepareLogLinear(args);
  const auto dtype = sizes.compute_dtype;
  const auto num_levels = static_cast<std::size_t>(log_linear::NumLevels(args));
  const auto q = (args.q.to(dtype) * sizes.scale).unbind(1);   // [B,H,K]
  const auto k = args.k.to(dtype).unbind(1);                   // [B,H,K]
  const auto v = args.v.to(dtype).unbind(1);                   // [B,H,V]
  const auto weights = args.level_weight.to(dtype).unbind(1);  // [B,H,L]
  std::vector<at::Tensor> decay;                               // [B,H,1,1]
  if (args.log_decay.defined()) {
    decay = at::exp(args.log_decay.to(dtype)).unsqueeze(-1).unsqueeze(-1).unbind(1);
  }

  std::vector<at::Tensor> beta;  // [B,H,1]
  if (args.beta.defined()) beta = args.beta.to(dtype).unsqueeze(-1).unbind(1);

  std::vector<at::Tensor> levels(num_levels + 1);  // [B,H,K,V], undefined where there is none
  for (const auto& bucket : log_linear::BucketsBefore(args.position)) {
    levels[static_cast<std::size_t>(bucket.level)] =
        log_linear::InitialLevel(args, bucket.level, dtype);
  }
  std::vector<at::Tensor> o;
  for (std::size_t t = 0; t < q.size(); ++t) {
    for (auto& level : levels) {
      if (!level.defined()) continue;
      if (!decay.empty()) level = decay[t] * level;
      if (beta.empty()) continue;
      const auto recalled = at::einsum("bhk,bhkv->bhv", {k[t], level});
      level = level - k[t].unsqueeze(-1) * (beta[t] * recalled).unsqueeze(-2);
    }
    levels[0] = k[t].unsqueeze(-1) * (beta.empty() ? v[t] : beta[t] * v[t]).unsqueeze(-2);
    const auto weight = weights[t].unbind(-1);
    at::Tensor read;
    for (std::size_t l = 0; l < num_levels; ++l) {
      if (!levels[l].defined()) continue;
      const auto of_level =
          weight[l].unsqueeze(-1) * at::einsum("bhk,bhkv->bhv", {q[t], levels[l]});
      read = read.defined() ? read + of_level : of_level;
    }
    o.push_back(read);
    // The next token has one carry: all lower levels become one.
    const auto position = static_cast<std::uint64_t>(args.position) + t;
    const auto carry = static_cast<std::size_t>(std::countr_one(position)) + 1;
    for (std::size_t l = 1; l < carry; ++l) levels[0] = levels[0] + levels[l];
    levels[carry] = levels[0];
    for (std::size_t l = 0; l < carry; ++l) levels[l] = at::Tensor();
  }
  LogLinearResult result{.o = at::stack(o, 1).to(args.v.scalar_type())};
  if (args.wants_final_state) {
    levels.erase(levels.begin());
    for (auto& level : levels) {
      if (!level.defined()) {
        level = at::zeros({sizes.batch_size, sizes.num_heads, sizes.head_k_dim, sizes.head_v_dim},
                          args.q.options().dtype(dtype));
      }
    }
    result.final_state = at::stack(levels, 2);
  }
  return result;
}

}  // namespace mixerbench::kernels
