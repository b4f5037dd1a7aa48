// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numbers>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/fft_irfft.h>
#include <ATen/ops/real.h>
#include <ATen/ops/zeros_like.h>

#include "base/check.h"
#include "kernels/runtime/differentiable.h"
#include "models/mixers/s4/dplr_system.h"

namespace mixerbench::models::s4 {
namespace {

// Elements of a Cauchy matrix that are held at once, unless those of one node are more.
constexpr std::int64_t kMaxElements = std::int64_t{1} << 23;

// The matrices 1/(z - a) and 1/(z - conj a) [H,M,J] of some nodes z = 2 i half_z.
struct Cauchy {
  at::Tensor plain;
  at::Tensor mirrored;

  Cauchy(const at::Tensor& a, const at::Tensor& half_z) {
    const at::Tensor z = at::complex(at::zeros_like(half_z), half_z * 2);
    plain = (z - a.unsqueeze(-1)).reciprocal();
    mirrored = (z - a.conj().unsqueeze(-1)).reciprocal();
  }
};

std::vector<at::Tensor> Tiles(const at::Tensor& half_z, const at::Tensor& a) {
  const std::int64_t size = std::max<std::int64_t>(1, kMaxElements / a.numel());
  return half_z.split(size);
}

// sum_m v/(z - a) + conj(v)/(z - conj a): v [H,V,M], a [H,M], half_z [J] real -> [H,V,J].
at::Tensor CauchySums(const at::Tensor& v, const at::Tensor& a, const at::Tensor& half_z) {
  at::Tensor sums;
  {
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> parts;
    for (const at::Tensor& tile : Tiles(half_z, a)) {
      const Cauchy cauchy(a, tile);
      parts.push_back(at::bmm(v, cauchy.plain) + at::bmm(v.conj(), cauchy.mirrored));
    }
    sums = at::cat(parts, -1);
  }
  kernels::SetBackward(
      "cauchy_sums", {v, a}, {sums}, {v, a, half_z},
      [](const kernels::BackwardArgs& args) -> std::vector<at::Tensor> {
        const at::Tensor &saved_v = args.saved[0], &saved_a = args.saved[1], &z = args.saved[2];
        at::Tensor dv = at::zeros_like(saved_v);
        at::Tensor dv_squared = at::zeros_like(saved_v);
        std::int64_t first = 0;
        for (const at::Tensor& tile : Tiles(z, saved_a)) {
          const Cauchy cauchy(saved_a, tile);
          const at::Tensor gradient = args.grads[0].narrow(-1, first, tile.size(0));
          const auto add = [&](at::Tensor& sum, const at::Tensor& plain,
                               const at::Tensor& mirrored) {
            sum = sum + at::bmm(gradient, plain.conj().mT()) +
                  at::bmm(gradient.conj(), mirrored.mT());
          };
          add(dv, cauchy.plain, cauchy.mirrored);
          add(dv_squared, cauchy.plain * cauchy.plain, cauchy.mirrored * cauchy.mirrored);
          first += tile.size(0);
        }
        return {dv, (saved_v.conj() * dv_squared).sum(1)};
      });
  return sums;
}

// r_CP (I + r_QP)^-1 r_QB of R x R matrices: cp [R] of [H,1,J], qp [R][R] of [H,1,J], qb [R] of
// [H,Q,J].
at::Tensor Correction(const std::vector<at::Tensor>& cp,
                      const std::vector<std::vector<at::Tensor>>& qp,
                      const std::vector<at::Tensor>& qb) {
  if (cp.size() == 1) return cp[0] * qb[0] / (qp[0][0] + 1);
  const at::Tensor top = qp[0][0] + 1;
  const at::Tensor bottom = qp[1][1] + 1;
  const at::Tensor determinant = top * bottom - qp[0][1] * qp[1][0];
  return (cp[0] * (bottom * qb[0] - qp[0][1] * qb[1]) + cp[1] * (top * qb[1] - qp[1][0] * qb[0])) /
         determinant;
}

}  // namespace

at::Tensor TruncatedKernel(const DplrSystem& system, const at::Tensor& read,
                           const at::Tensor& inputs, std::int64_t length) {
  const std::int64_t rank = system.p.size(0);
  Require(rank == 1 || rank == 2, "the low-rank part has rank 1 or 2");
  const std::int64_t num_inputs = inputs.size(0);
  // At the nodes omega^j but -1: z = 2 (1 - omega)/(1 + omega) = 2 i tan(pi j / length).
  const at::Tensor j = at::arange((length + 1) / 2, system.step.options().requires_grad(false));
  const at::Tensor half_z = (j * (std::numbers::pi / static_cast<double>(length))).tan();

  const at::Tensor b = inputs.transpose(0, 1);    // [H,Q,M]
  const at::Tensor p = system.p.transpose(0, 1);  // [H,R,M]
  const at::Tensor columns = at::cat({b, p}, 1);  // [H,Q+R,M]
  std::vector<at::Tensor> products = {read.unsqueeze(1) * columns};
  for (std::int64_t r = 0; r < rank; ++r) {
    products.push_back(p.narrow(1, r, 1).conj() * columns);
  }
  const at::Tensor v = at::cat(products, 1) * system.step.unsqueeze(-1);
  const at::Tensor sums = CauchySums(v, system.rate * system.step, half_z);
  const std::int64_t stride = num_inputs + rank;
  const auto with_inputs = [&](std::int64_t row) {
    return sums.narrow(1, row * stride, num_inputs);
  };
  const auto with_p = [&](std::int64_t row, std::int64_t r) {
    return sums.narrow(1, row * stride + num_inputs + r, 1);
  };
  std::vector<at::Tensor> cp;
  std::vector<at::Tensor> qb;
  std::vector<std::vector<at::Tensor>> qp;
  for (std::int64_t r = 0; r < rank; ++r) {
    cp.push_back(with_p(0, r));
    qb.push_back(with_inputs(r + 1));
    qp.emplace_back();
    for (std::int64_t s = 0; s < rank; ++s) qp.back().push_back(with_p(r + 1, s));
  }
  // 2 / (1 + omega) = 1 + i tan(pi j / length).
  const at::Tensor factor = at::complex(at::zeros_like(half_z) + 1, half_z);
  at::Tensor spectrum = (with_inputs(0) - Correction(cp, qp, qb)) * factor;
  if (length % 2 == 0) {  // the limit at omega = -1
    const at::Tensor limit =
        at::real(read.unsqueeze(1) * b).sum(-1, /*keepdim=*/true) * system.step.unsqueeze(-1);
    spectrum = at::cat({spectrum, at::complex(limit, at::zeros_like(limit))}, -1);
  }
  return at::fft_irfft(spectrum, length, -1).transpose(0, 1);
}

}  // namespace mixerbench::models::s4
