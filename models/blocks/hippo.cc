// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/hippo.h"

#include <cmath>
#include <numbers>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/diag.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/imag.h>
#include <ATen/ops/linalg_eigh.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/real.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "base/check.h"

namespace mixerbench::models {
namespace {

at::Tensor Indices(std::int64_t count) { return at::arange(count, at::TensorOptions(at::kDouble)); }

HippoSystem Legs(std::int64_t size) {
  const at::Tensor n = Indices(size);
  const at::Tensor root = (n * 2 + 1).sqrt();
  return {-(at::outer(root, root).tril(-1) + at::diag(n + 1)), root, (n + 0.5).sqrt().unsqueeze(0)};
}

HippoSystem Legt(std::int64_t size) {
  const at::Tensor n = Indices(size);
  const at::Tensor root = (n * 2 + 1).sqrt();
  const at::Tensor odd = n.remainder(2);
  const at::Tensor sign = (odd.unsqueeze(1) - odd).abs() * -2 + 1;  // (-1)^(i-j)
  const at::Tensor a = at::outer(root, root) * (at::ones_like(sign).tril() + sign.triu(1)) / -2;
  const at::Tensor halves = at::stack({root * odd, root * (1 - odd)});
  return {a, root / 2, halves / std::numbers::sqrt2};
}

HippoSystem Fourier(std::int64_t size) {
  const at::Tensor frequency = Indices(size / 2) * std::numbers::pi;
  const at::Tensor pairs =
      at::stack({at::zeros({size / 2}, at::kDouble), frequency}, 1).flatten().slice(0, 1);
  const at::Tensor rotation = at::diag(pairs, -1) - at::diag(pairs, 1);
  const at::Tensor n = Indices(size);
  at::Tensor b = (1 - n.remainder(2)) * std::numbers::sqrt2;
  b[0] = 1;
  return {rotation - at::outer(b, b), b, b.unsqueeze(0)};
}

}  // namespace

HippoSystem Hippo(HippoMeasure measure, std::int64_t state_size) {
  switch (measure) {
    case HippoMeasure::kLegs:
      return Legs(state_size);
    case HippoMeasure::kLegt:
      return Legt(state_size);
    case HippoMeasure::kFourier:
      return Fourier(state_size);
  }
  Require(false, "unknown HiPPO measure");
  return {};
}

NormalPlusLowRank Diagonalize(HippoMeasure measure, std::int64_t state_size) {
  Require(state_size >= 2 && state_size % 2 == 0, "the order of a HiPPO system is even");
  const HippoSystem system = Hippo(measure, state_size);
  const at::Tensor normal = system.a + system.p.t().matmul(system.p);
  const double decay = normal.diagonal().mean().item<double>();
  // normal = decay + a skew-symmetric matrix, and -i times that is Hermitian.
  const at::Tensor skew = (normal - normal.t()) / 2;
  const auto [omega, vectors] = at::linalg_eigh(at::complex(at::zeros_like(skew), -skew));
  const std::int64_t num_modes = state_size / 2;
  const at::Tensor kept = omega.narrow(0, 0, num_modes);
  at::Tensor v = vectors.narrow(1, 0, num_modes);
  const at::Tensor first = (v.abs() > 1e-6).to(at::kLong).argmax(0, /*keepdim=*/true);
  const at::Tensor entry = v.gather(0, first);
  v = v * entry.conj() / entry.abs();
  if (std::abs(kept[num_modes - 1].item<double>()) < 1e-4) {
    // Two zeros, whose eigenvectors can be any of a plane: take a conjugate pair.
    at::Tensor last = at::zeros({state_size}, v.options());
    last[0] = 1 / std::numbers::sqrt2;
    last[1] = c10::complex<double>(0, 1 / std::numbers::sqrt2);
    v = v.clone();
    v.select(1, num_modes - 1).copy_(last);
  }
  const at::Tensor adjoint = v.conj().t();
  return {.decay = decay,
          .omega = kept,
          .b = adjoint.matmul(system.b.to(at::kComplexDouble)),
          .p = adjoint.matmul(system.p.t().to(at::kComplexDouble)).t(),
          .v = v};
}

at::Tensor ClipImaginary(const at::Tensor& b) {
  return at::complex(at::real(b).contiguous(), at::imag(b).clamp(-2, 2));
}

}  // namespace mixerbench::models
