// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/raven/slot_router.h"

#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>

#include "kernels/routing/top_k.h"
#include "kernels/runtime/differentiable.h"
#include "models/blocks/routing.h"

namespace mixerbench::models::raven {
namespace {

constexpr double kTiny = 1e-9;  // beside the sum of scores

struct Steps {
  at::Tensor scores;  // m
  at::Tensor indices;
  at::Tensor chosen;   // 1 where a slot is chosen
  at::Tensor divisor;  // alpha Z, [B,T,H,1]
  at::Tensor weights;
  at::Tensor log_decay;
};

Steps Route(const SlotRouterArgs& args) {
  Steps steps;
  steps.scores =
      args.score == SlotScore::kSigmoid ? at::sigmoid(args.logits) : at::softmax(args.logits, -1);
  const at::Tensor ranks =
      args.selection_bias.defined() ? steps.scores + args.selection_bias : steps.scores;
  steps.indices = kernels::TopK(ranks, args.top_k);
  steps.chosen = MaskOf(steps.indices, ranks.size(-1));
  const at::Tensor g = steps.scores * steps.chosen;
  const at::Tensor sum = g.sum(-1, /*keepdim=*/true) + kTiny;
  steps.divisor = (args.renormalises ? sum : at::ones_like(sum)) * args.alpha;
  steps.weights = g / steps.divisor;
  steps.log_decay = args.decay * steps.weights;
  return steps;
}

// From the gradient df of log_decay = a r:  dr = a df,  da = df r, summed where slots share it,
//   dg = (dr - alpha <dr, r>) / (alpha Z), or dr / alpha where Z = 1,  dm = dg where chosen,
//   dz = m (1 - m) dm for the sigmoid and m (dm - <m, dm>) for the softmax.
std::vector<at::Tensor> Backward(const kernels::BackwardArgs& args, double alpha, bool renormalises,
                                 SlotScore score) {
  const at::Tensor& decay = args.saved[0];
  const at::Tensor& m = args.saved[1];
  const at::Tensor& chosen = args.saved[2];
  const at::Tensor& divisor = args.saved[3];
  const at::Tensor& r = args.saved[4];
  const at::Tensor& df = args.grads[0];
  const auto over_slots = [](const at::Tensor& x) { return x.sum(-1, /*keepdim=*/true); };
  const at::Tensor da = df * r;
  const at::Tensor dr = df * decay;
  const at::Tensor dg = renormalises ? dr - over_slots(dr * r) * alpha : dr;
  const at::Tensor dm = dg / divisor * chosen;
  const at::Tensor dz =
      score == SlotScore::kSigmoid ? dm * m * (1 - m) : m * (dm - over_slots(m * dm));
  return {dz, decay.size(-1) == 1 ? over_slots(da) : da};
}

}  // namespace

SlotRouting RouteSlots(const SlotRouterArgs& args, kernels::ExecutionPath path) {
  if (path == kernels::ExecutionPath::kReference) {
    const Steps steps = Route(args);
    return {.log_decay = steps.log_decay,
            .scores = steps.scores.detach(),
            .weights = steps.weights.detach(),
            .indices = steps.indices};
  }
  Steps steps;
  {
    const at::NoGradGuard no_grad;
    steps = Route(args);
  }
  kernels::SetBackward("RouteSlots", {args.logits, args.decay}, {steps.log_decay},
                       {args.decay, steps.scores, steps.chosen, steps.divisor, steps.weights},
                       [alpha = args.alpha, renormalises = args.renormalises,
                        score = args.score](const kernels::BackwardArgs& backward) {
                         return Backward(backward, alpha, renormalises, score);
                       });
  return {.log_decay = steps.log_decay,
          .scores = steps.scores,
          .weights = steps.weights,
          .indices = steps.indices};
}

}  // namespace mixerbench::models::raven
