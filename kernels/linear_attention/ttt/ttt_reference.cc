// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>

#include "kernels/linear_attention/ttt/ttt.h"
#include "kernels/linear_attention/ttt/ttt_steps.h"

namespace mixerbench::kernels {

TttResult ReferenceTtt(const TttArgs& args) {
  const auto sizes = ttt::PrepareTtt(args);
  const auto dtype = sizes.compute_dtype;
  const auto tokens = ttt::AllTokens(args, sizes);
  const auto q = (args.q.to(dtype) * sizes.scale).unbind(1);                // [B,H,K]
  const auto k = tokens.k.unbind(1);                                        // [B,H,K]
  const auto v = tokens.v.unbind(1);                                        // [B,H,K]
  const auto learning_rate = tokens.learning_rate.unsqueeze(-1).unbind(1);  // [B,H,1]
  const auto token_scale = args.token_scale.to(dtype).unbind(0);
  const auto norm_weight = args.norm_weight.to(dtype), norm_bias = args.norm_bias.to(dtype);
  const auto num_before = static_cast<std::size_t>(tokens.num_before);
  const auto forward = [](const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
    return at::einsum("bhk,bhkl->bhl", {x, weight}) + bias;
  };

  auto weight = args.initial_state.weight.to(dtype);  // [B,H,K,K]
  auto bias = args.initial_state.bias.to(dtype);      // [B,H,K]
  at::Tensor weight_sum, bias_sum;                    // of steps in this mini-batch
  std::vector<at::Tensor> o, surprise, loss;
  for (std::size_t t = 0; t < k.size(); ++t) {
    const std::size_t place = t % token_scale.size();
    const auto u = ttt::GradientOfLoss(forward(k[t], weight, bias), v[t] - k[t], norm_weight,
                                       norm_bias, args.norm_eps);
    const auto step = learning_rate[t] * u.value;
    const auto weight_step = k[t].unsqueeze(-1) * step.unsqueeze(-2);
    weight_sum = place == 0 ? weight_step : weight_sum + weight_step;
    bias_sum = place == 0 ? step : bias_sum + step;
    const auto seen_weight = weight - token_scale[place] * weight_sum;
    const auto seen_bias = bias - token_scale[place] * bias_sum;
    if (t >= num_before) {
      o.push_back(forward(q[t - num_before], seen_weight, seen_bias));
      surprise.push_back(at::linalg_vector_norm(step.detach(), 2, {-1}));
    }
    if (t >= num_before && args.wants_loss) {
      loss.push_back(ttt::Loss(u, v[t] - k[t], norm_weight, norm_bias).detach());
    }
    if (place + 1 == token_scale.size()) {
      weight = seen_weight;
      bias = seen_bias;
    }
  }
  TttResult result{.o = at::stack(o, 1).to(args.v.scalar_type()),
                   .final_state = ttt::StateAfter(tokens, weight, bias, args.token_scale.size(0)),
                   .surprise = at::stack(surprise, 1)};
  if (args.wants_loss) result.loss = at::stack(loss, 1);
  return result;
}

}  // namespace mixerbench::kernels
