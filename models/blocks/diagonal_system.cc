// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/diagonal_system.h"

#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/atan2.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/imag.h>
#include <ATen/ops/log.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/polar.h>
#include <ATen/ops/real.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "base/check.h"
#include "models/blocks/long_convolution.h"
#include "models/blocks/mode_sums.h"

namespace mixerbench::models {
namespace {

// step (e^a - 1) / a with a = step rate, by its series where the difference has no digits.
at::Tensor ZohInput(const at::Tensor& a, const at::Tensor& step) {
  constexpr double kSmall = 1e-4;
  const at::Tensor small = at::real(a).square() + at::imag(a).square() < kSmall * kSmall;
  const at::Tensor divisor = at::where(small, at::ones_like(a), a);
  const at::Tensor series = a * (a / 6 + 0.5) + 1;
  return step * at::where(small, series, (ComplexExp(divisor) - 1) / divisor);
}

// [H,M] -> [H R,M], each system R times.
at::Tensor PerChannel(const at::Tensor& x, std::int64_t channels) {
  const std::int64_t times = channels / x.size(0);
  return times == 1 ? x : x.unsqueeze(1).expand({-1, times, -1}).flatten(0, 1);
}

at::Tensor TwiceRealSum(const at::Tensor& x) { return at::real(x).sum(-1) * 2; }

SystemResult ByRecurrence(const DiagonalSystem& system, const at::Tensor& u,
                          const at::Tensor& initial_state) {
  const std::int64_t channels = u.size(2);
  const at::ScalarType dtype = c10::toComplexType(u.scalar_type());
  const at::Tensor step = PerChannel(ComplexExp(system.log_step), channels).to(dtype);
  const at::Tensor input = PerChannel(system.input, channels).to(dtype);
  const at::Tensor output = PerChannel(system.output, channels).to(dtype);
  at::Tensor state = initial_state.defined()
                         ? initial_state.to(dtype)
                         : at::zeros({u.size(0), channels, step.size(1)},
                                     u.options().dtype(dtype).requires_grad(false));
  std::vector<at::Tensor> y;
  for (const at::Tensor& token : u.unbind(1)) {
    state = step * state + input * token.unsqueeze(-1);
    y.push_back(TwiceRealSum(output * state));
  }
  return {at::stack(y, 1), state};
}

SystemResult ByConvolution(const DiagonalSystem& system, const at::Tensor& u,
                           const at::Tensor& initial_state, bool wants_final_state) {
  const std::int64_t length = u.size(1);
  const std::int64_t channels = u.size(2);
  const at::ScalarType dtype = c10::toComplexType(u.scalar_type());
  const at::Tensor weights = (system.output * system.input).to(dtype).unsqueeze(0);
  const at::Tensor kernel = ModeSum(weights, system.log_step, length).squeeze(0);  // [H,T]
  SystemResult result;
  result.y =
      LongConvolution(u, PerChannel(kernel, channels).t(), length, kernels::ExecutionPath::kFast);
  if (!initial_state.defined() && !wants_final_state) return result;

  const at::Tensor log_step = PerChannel(system.log_step, channels);
  if (initial_state.defined()) {
    const at::Tensor output = PerChannel(system.output * ComplexExp(system.log_step), channels);
    const at::Tensor carried =
        ModeSum(initial_state.to(dtype) * output.to(dtype), log_step, length);
    result.y = result.y + carried.transpose(1, 2);
  }
  if (!wants_final_state) return result;
  result.final_state = ModeMoments(u.flip(1).transpose(1, 2), log_step) *
                       PerChannel(system.input, channels).to(dtype);
  if (initial_state.defined()) {
    const at::Tensor all_steps = ComplexExp(log_step * static_cast<double>(length)).to(dtype);
    result.final_state = result.final_state + all_steps * initial_state.to(dtype);
  }
  return result;
}

}  // namespace

at::Tensor ComplexExp(const at::Tensor& x) { return at::polar(at::real(x).exp(), at::imag(x)); }

at::Tensor LogOfBilinear(const at::Tensor& x) {
  const at::Tensor re = at::real(x);
  const at::Tensor im = at::imag(x);
  const at::Tensor above = (re + 1).square() + im.square();
  const at::Tensor below = (1 - re).square() + im.square();
  return at::complex((above / below).log() / 2, at::atan2(im, re + 1) + at::atan2(im, 1 - re));
}

DiagonalSystem Discretize(const at::Tensor& rate, const at::Tensor& input, const at::Tensor& output,
                          const at::Tensor& step, Discretization discretization) {
  const at::Tensor a = rate * step;
  if (discretization == Discretization::kZoh) return {a, ZohInput(a, step) * input, output};
  return {LogOfBilinear(a / 2), step / (1 - a / 2) * input, output};
}

SystemResult RunSystem(const DiagonalSystem& system, const at::Tensor& u,
                       const at::Tensor& initial_state, bool wants_final_state,
                       kernels::ExecutionPath path) {
  Require(u.dim() == 3 && u.size(2) % system.log_step.size(0) == 0,
          "diagonal system: u is [B,T,C] with a multiple of the number of systems as C");
  if (path == kernels::ExecutionPath::kReference) return ByRecurrence(system, u, initial_state);
  return ByConvolution(system, u, initial_state, wants_final_state);
}

}  // namespace mixerbench::models
