// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/mesa/mesa_solve.h"

#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/zeros_like.h>

#include "kernels/linear_attention/mesa/mesa_cuda.h"
#include "kernels/linear_attention/mesa/mesa_plan.h"
#include "kernels/runtime/differentiable.h"
#include "kernels/runtime/plain_aten.h"
#include "kernels/runtime/plan.h"

namespace mixerbench::kernels::mesa {
namespace {

at::Tensor Dot(const at::Tensor& a, const at::Tensor& b) {
  return (a * b).sum(-1, /*keepdim=*/true);
}

at::Tensor SolveByAten(const MesaSystem& system, const at::Tensor& b, std::int64_t num_iterations) {
  const auto apply = [&](const at::Tensor& p) { return system.Apply(p); };
  return ConjugateGradients(apply, b, num_iterations);
}

// Gradients of the fields of MesaSystem that have one, in their order, and of q. `on_device` as in
// the forward pass: PlainAten is known to its thread alone.
std::vector<at::Tensor> SolveBackward(const MesaSystem& system, const at::Tensor& x,
                                      const at::Tensor& d_x, std::int64_t num_iterations,
                                      bool on_device) {
  const auto d_q = on_device ? *SolveOnCuda(system, d_x, num_iterations).result
                             : SolveByAten(system, d_x, num_iterations);
  // A is symmetric, so dA = -d_q x^T.
  const auto x_k = at::bmm(x, system.k.mT());  // [M,C,C]
  const auto dq_k = at::bmm(d_q, system.k.mT());
  auto d_k = at::bmm((system.pairs * dq_k).mT(), x);
  d_k = at::baddbmm(d_k, (system.pairs * x_k).mT(), d_q);
  return {d_k.neg_(),
          (x_k * dq_k).neg_(),
          Dot(d_q, at::bmm(x, system.entering.mT())).neg_(),
          at::bmm((d_q * system.from_start).mT(), x).neg_(),
          (d_q * x).sum(1, /*keepdim=*/true).neg_(),
          d_q};
}

}  // namespace

at::Tensor ConjugateGradients(const std::function<at::Tensor(const at::Tensor&)>& apply,
                              const at::Tensor& b, std::int64_t num_iterations) {
  // Keeps 0/0 of a row that is solved from being NaN, and nothing else.
  constexpr double kTiny = std::numeric_limits<float>::min();
  auto x = at::zeros_like(b);
  auto residual = b;
  auto direction = b;
  auto square = Dot(residual, residual);
  for (std::int64_t i = 0; i < num_iterations; ++i) {
    const auto applied = apply(direction);
    const auto step = square / (Dot(direction, applied) + kTiny);
    x = at::addcmul(x, step, direction);
    residual = at::addcmul(residual, step, applied, /*value=*/-1);
    const auto next_square = Dot(residual, residual);
    direction = at::addcmul(residual, next_square / (square + kTiny), direction);
    square = next_square;
  }
  return x;
}

at::Tensor MesaSystem::Apply(const at::Tensor& p) const {
  const auto from_before = at::bmm(p, entering.mT()) * from_start;
  const auto in_chunk = at::bmm(p, k.mT()).mul_(pairs);
  return at::baddbmm(from_before, in_chunk, k).addcmul_(ridge, p);
}

at::Tensor Solve(const MesaSystem& system, const at::Tensor& q, std::int64_t num_iterations) {
  const std::vector<at::Tensor> inputs = {system.k,        system.pairs, system.from_start,
                                          system.entering, system.ridge, q};
  DeviceAttempt<at::Tensor> attempt;
  {
    const at::NoGradGuard no_grad;
    attempt = PlainAten::IsAsked() ? DeviceAttempt<at::Tensor>{{}, std::string(kPlainAtenAsked)}
                                   : SolveOnCuda(system, q, num_iterations);
  }
  const bool on_device = attempt.result.has_value();
  const std::string_view plan = on_device ? kConjugateGradientPlan : kAtenChunkPlan;
  RecordPlan("mesa", plan, NeedsBackward(inputs) ? plan : std::string_view(), attempt.refusal);
  at::Tensor x;
  if (on_device) {
    x = *std::move(attempt.result);
  } else {
    const at::NoGradGuard no_grad;
    x = SolveByAten(system, q, num_iterations);
  }
  SetBackward("MesaSolve", inputs, {x},
              {system.k, system.pairs, system.from_start, system.entering, system.ridge,
               system.log_decay, system.beta, x},
              [num_iterations, on_device](const BackwardArgs& backward) {
                const auto& s = backward.saved;
                return SolveBackward({s[0], s[1], s[2], s[3], s[4], s[5], s[6]}, s[7],
                                     backward.grads[0], num_iterations, on_device);
              });
  return x;
}

}  // namespace mixerbench::kernels::mesa
