// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/zeros_like.h>

#include "kernels/linear_attention/ttt/ttt_steps.h"
#include "kernels/runtime/differentiable.h"

namespace mixerbench::kernels::ttt {
namespace {

at::Tensor Mean(const at::Tensor& x) { return x.mean(-1, /*keepdim=*/true); }

// (x - mean(x) - normed mean(x normed)) / sigma: what a norm makes of a gradient. It is its own
// transpose.
at::Tensor ThroughNorm(const at::Tensor& x, const at::Tensor& normed, const at::Tensor& inv_sigma) {
  return (x - Mean(x) - normed * Mean(x * normed)) * inv_sigma;
}

// Gradients of U = ThroughNorm(error) with respect to z and error.
struct SecondOrder {
  at::Tensor d_z, d_error;
};
SecondOrder Backward(const LossGradient& u, const at::Tensor& weight, const at::Tensor& d_u) {
  const auto d_error = ThroughNorm(d_u, u.normed, u.inv_sigma);
  const auto d_normed =
      weight * weight * d_error -
      (d_u * Mean(u.error * u.normed) + u.error * Mean(d_u * u.normed)) * u.inv_sigma;
  // sigma divides U itself; its gradient by z is normed / K.
  const auto d_sigma = Mean(d_u * u.value) * u.inv_sigma;
  return {ThroughNorm(d_normed, u.normed, u.inv_sigma) - d_sigma * u.normed, d_error};
}

std::vector<at::Tensor> LearnBackward(const TttLearner& x, const TttLearned& learned,
                                      const LossGradient& saved, const at::Tensor& d_weights,
                                      const at::Tensor& d_steps) {
  const std::int64_t num_sequences = x.weights.size(0);
  const std::int64_t num_batches = x.k.size(0) / num_sequences;
  const auto part = [&](const at::Tensor& t, std::int64_t n) {
    return t.narrow(0, n * num_sequences, num_sequences);
  };
  const auto stepping_k = x.k * x.step;
  std::vector<at::Tensor> d_z, d_error, d_stepped, leaving;
  auto gradient = part(d_weights, num_batches);
  for (std::int64_t n = num_batches - 1; n >= 0; --n) {
    leaving.push_back(gradient);
    // The parameters after the mini-batch have -step k^T steps in them.
    d_stepped.push_back(
        at::baddbmm(part(d_steps, n), part(stepping_k, n), gradient, /*beta=*/1, /*alpha=*/-1));
    const LossGradient u{part(saved.normed, n), part(saved.inv_sigma, n), part(saved.error, n),
                         part(saved.value, n)};
    const auto d = Backward(u, part(x.norm_weight, n), d_stepped.back() * part(x.rate, n));
    d_z.push_back(d.d_z);
    d_error.push_back(d.d_error);
    gradient = at::baddbmm(gradient + part(d_weights, n), part(x.k, n).mT(), d.d_z);
  }
  const auto in_order = [](std::vector<at::Tensor>& parts) {
    return at::cat(std::vector<at::Tensor>(parts.rbegin(), parts.rend()));
  };
  const auto all_d_z = in_order(d_z), all_d_error = in_order(d_error);
  const auto all_d_stepped = in_order(d_stepped), all_leaving = in_order(leaving);
  const auto entering = learned.weights.narrow(0, 0, x.k.size(0));
  const auto by_leaving = at::bmm(learned.steps, all_leaving.mT());  // [N R,M,K+1]
  const auto d_k = at::baddbmm(by_leaving * -x.step, all_d_z, entering.mT());
  const auto weighted_error = x.norm_weight * all_d_error;
  // error = weight (weight normed + bias - target); the bracket is saved times the weight, which
  // may be zero, so it is formed again.
  const auto difference = x.norm_weight * saved.normed + x.norm_bias - x.target;
  const auto d_norm_weight =
      (all_d_error * (difference + x.norm_weight * saved.normed)).sum(1, /*keepdim=*/true);
  return {d_k,
          weighted_error.neg(),
          (all_d_stepped * saved.value).sum(-1, /*keepdim=*/true),
          d_norm_weight,
          weighted_error.sum(1, /*keepdim=*/true),
          (by_leaving * x.k).sum().neg_().view({1}),
          gradient};
}

}  // namespace

LossGradient GradientOfLoss(const at::Tensor& z, const at::Tensor& target, const at::Tensor& weight,
                            const at::Tensor& bias, double eps) {
  const auto centered = z - Mean(z);
  LossGradient u;
  u.inv_sigma = at::rsqrt(Mean(centered * centered) + eps);
  u.normed = centered * u.inv_sigma;
  u.error = weight * (weight * u.normed + bias - target);
  u.value = ThroughNorm(u.error, u.normed, u.inv_sigma);
  return u;
}

at::Tensor Loss(const LossGradient& gradient, const at::Tensor& target, const at::Tensor& weight,
                const at::Tensor& bias) {
  const auto difference = weight * gradient.normed + bias - target;
  return (difference * difference).sum(-1) / 2;
}

TttLearned Learn(const TttLearner& x, double eps) {
  const std::int64_t num_sequences = x.weights.size(0);
  const std::int64_t num_batches = x.k.size(0) / num_sequences;
  const std::vector<at::Tensor> inputs = {x.k,         x.target, x.rate,   x.norm_weight,
                                          x.norm_bias, x.step,   x.weights};
  TttLearned learned;
  LossGradient all;
  {
    const at::NoGradGuard no_grad;
    const auto part = [&](const at::Tensor& t, std::int64_t n) {
      return t.narrow(0, n * num_sequences, num_sequences);
    };
    const auto stepping_k = x.k * x.step;
    std::vector<at::Tensor> weights = {x.weights}, steps, normed, inv_sigma, error, value;
    for (std::int64_t n = 0; n < num_batches; ++n) {
      const auto u = GradientOfLoss(at::bmm(part(x.k, n), weights.back()), part(x.target, n),
                                    part(x.norm_weight, n), part(x.norm_bias, n), eps);
      steps.push_back(u.value * part(x.rate, n));
      weights.push_back(at::baddbmm(weights.back(), part(stepping_k, n).mT(), steps.back(),
                                    /*beta=*/1, /*alpha=*/-1));
      normed.push_back(u.normed);
      inv_sigma.push_back(u.inv_sigma);
      error.push_back(u.error);
      value.push_back(u.value);
    }
    learned = {at::cat(weights), at::cat(steps)};
    all = {at::cat(normed), at::cat(inv_sigma), at::cat(error), at::cat(value)};
  }
  std::vector<at::Tensor> saved = inputs;
  saved.insert(saved.end(),
               {learned.weights, learned.steps, all.normed, all.inv_sigma, all.error, all.value});
  SetBackward("TttLearn", inputs, {learned.weights, learned.steps}, saved,
              [](const BackwardArgs& backward) {
                const auto& s = backward.saved;
                const auto defined = [](const at::Tensor& gradient, const at::Tensor& like) {
                  return gradient.defined() ? gradient : at::zeros_like(like);
                };
                return LearnBackward({s[0], s[1], s[2], s[3], s[4], s[5], s[6]}, {s[7], s[8]},
                                     {s[9], s[10], s[11], s[12]}, defined(backward.grads[0], s[7]),
                                     defined(backward.grads[1], s[8]));
              });
  return learned;
}

}  // namespace mixerbench::kernels::ttt
