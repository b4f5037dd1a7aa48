// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/mode_sums.h"

#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/imag.h>
#include <ATen/ops/real.h>

#include "base/check.h"
#include "kernels/runtime/differentiable.h"

namespace mixerbench::models {
namespace {

// e^{l a} for l = q + Q n, as real and imaginary parts.
struct Powers {
  std::int64_t length = 0;
  std::int64_t block = 0;       // Q
  std::int64_t num_blocks = 0;  // N
  at::Tensor fine;              // e^{q a}: [H,2M,Q], real parts of all modes, then imaginary parts
  at::Tensor coarse_re;         // e^{Q n a}: [H,1,N,M]
  at::Tensor coarse_im;

  Powers(const at::Tensor& exponents, std::int64_t seq_len, at::ScalarType dtype)
      : length(seq_len), block(64) {
    while (block * block < length) block *= 2;
    num_blocks = (length + block - 1) / block;
    const at::Tensor re = at::real(exponents).unsqueeze(-1);  // [H,M,1]
    const at::Tensor im = at::imag(exponents).unsqueeze(-1);
    const auto table = [&](std::int64_t count, std::int64_t step) {
      const at::Tensor l = at::arange(count, re.options().requires_grad(false)) * step;
      const at::Tensor size = (re * l).exp();
      const at::Tensor angle = im * l;
      return at::cat({size * angle.cos(), size * angle.sin()}, 1).to(dtype);
    };
    fine = table(block, 1);
    const auto coarse = table(num_blocks, block).mT().unsqueeze(1).chunk(2, -1);
    coarse_re = coarse[0];
    coarse_im = coarse[1];
  }
};

// sum over the modes, without the factor 2.
at::Tensor SumOverModes(const at::Tensor& weights, const Powers& powers) {
  const std::int64_t rows = weights.size(0);
  const at::Tensor re = at::real(weights).transpose(0, 1).unsqueeze(2);  // [H,R,1,M]
  const at::Tensor im = at::imag(weights).transpose(0, 1).unsqueeze(2);
  const at::Tensor at_block = at::cat({re * powers.coarse_re - im * powers.coarse_im,
                                       -(re * powers.coarse_im + im * powers.coarse_re)},
                                      -1);                               // [H,R,N,2M]
  const at::Tensor sums = at::bmm(at_block.flatten(1, 2), powers.fine);  // [H,R N,Q]
  return sums.view({weights.size(1), rows, -1}).narrow(2, 0, powers.length).transpose(0, 1);
}

at::Tensor SumOverTime(const at::Tensor& x, const Powers& powers) {
  const std::int64_t rows = x.size(0);
  const std::int64_t padding = powers.num_blocks * powers.block - powers.length;
  const at::Tensor blocks = at::constant_pad_nd(x.transpose(0, 1), {0, padding})
                                .reshape({x.size(1), -1, powers.block});  // [H,R N,Q]
  const auto sums = at::bmm(blocks, powers.fine.mT())
                        .view({x.size(1), rows, powers.num_blocks, -1})
                        .chunk(2, -1);  // [H,R,N,M], real and imaginary
  const at::Tensor re = (sums[0] * powers.coarse_re - sums[1] * powers.coarse_im).sum(2);
  const at::Tensor im = (sums[0] * powers.coarse_im + sums[1] * powers.coarse_re).sum(2);
  return at::complex(re, im).transpose(0, 1);  // [R,H,M]
}

at::Tensor TimesPosition(const at::Tensor& x) {
  return x * at::arange(x.size(2), x.options().requires_grad(false));
}

}  // namespace

at::Tensor ModeSum(const at::Tensor& weights, const at::Tensor& exponents, std::int64_t length) {
  Require(weights.dim() == 3 && weights.is_complex() && weights[0].sizes() == exponents.sizes() &&
              exponents.scalar_type() == at::kComplexDouble,
          "mode sum: weights are [R,H,M] complex, exponents [H,M] complex128");
  const at::ScalarType real = c10::toRealValueType(weights.scalar_type());
  at::Tensor sum;
  {
    const at::NoGradGuard no_grad;
    sum = SumOverModes(weights, Powers(exponents, length, real)) * 2;
  }
  kernels::SetBackward(
      "mode_sum", {weights, exponents}, {sum}, {weights, exponents},
      [=](const kernels::BackwardArgs& args) -> std::vector<at::Tensor> {
        const Powers powers(args.saved[1], length, real);
        at::Tensor d_weights;
        at::Tensor d_exponents;
        if (args.wanted[0]) d_weights = SumOverTime(args.grads[0], powers).conj() * 2;
        if (args.wanted[1]) {
          const at::Tensor moments = SumOverTime(TimesPosition(args.grads[0]), powers);
          d_exponents = (args.saved[0] * moments).conj().to(at::kComplexDouble).sum(0) * 2;
        }
        return {d_weights, d_exponents};
      });
  return sum;
}

at::Tensor ModeMoments(const at::Tensor& x, const at::Tensor& exponents) {
  Require(x.dim() == 3 && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble) &&
              x.size(1) == exponents.size(0) && exponents.scalar_type() == at::kComplexDouble,
          "mode moments: x is [R,H,L] in float32 or float64, exponents [H,M] complex128");
  const at::ScalarType real = x.scalar_type();
  const std::int64_t length = x.size(2);
  at::Tensor moments;
  {
    const at::NoGradGuard no_grad;
    moments = SumOverTime(x, Powers(exponents, length, real));
  }
  kernels::SetBackward("mode_moments", {x, exponents}, {moments}, {x, exponents},
                       [=](const kernels::BackwardArgs& args) -> std::vector<at::Tensor> {
                         const Powers powers(args.saved[1], length, real);
                         const at::Tensor& gradient = args.grads[0];
                         at::Tensor dx;
                         at::Tensor d_exponents;
                         if (args.wanted[0])
                           dx = SumOverModes(gradient.conj().resolve_conj(), powers);
                         if (args.wanted[1]) {
                           const at::Tensor later =
                               SumOverTime(TimesPosition(args.saved[0]), powers);
                           d_exponents = (later.conj() * gradient).to(at::kComplexDouble).sum(0);
                         }
                         return {dx, d_exponents};
                       });
  return moments;
}

}  // namespace mixerbench::models
