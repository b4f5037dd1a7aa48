// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/diagonal_modes.h"

#include <numbers>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/imag.h>
#include <ATen/ops/log.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/real.h>
#include <ATen/ops/zeros_like.h>

#include "models/blocks/hippo.h"
#include "models/blocks/state_space.h"

namespace mixerbench::models {
namespace {

constexpr double kPi = std::numbers::pi;
constexpr double kSlowest = 1e-4;

DiagonalModes OneSystem(DiagonalInit init, std::int64_t num_modes) {
  const at::Tensor n = at::arange(num_modes, at::TensorOptions(at::kDouble));
  const auto order = static_cast<double>(2 * num_modes);
  at::Tensor decay = at::full_like(n, -0.5);
  at::Tensor omega;
  switch (init) {
    case DiagonalInit::kLin:
    case DiagonalInit::kDiag:
      omega = n * kPi;
      break;
    case DiagonalInit::kInv:
      omega = (order / (n * 2 + 1) - 1) * (order / kPi);
      break;
    case DiagonalInit::kInv2:
      omega = (order / (n + 1) - 1) * (order / kPi);
      break;
    case DiagonalInit::kQuad:
      omega = (n * 2 + 1).square() / kPi;
      break;
    case DiagonalInit::kReal:
      omega = at::zeros_like(n);
      decay = -(n + 1);
      break;
    case DiagonalInit::kLegs: {  // the conjugates of the modes kept: frequencies are positive
      const NormalPlusLowRank legs = Diagonalize(HippoMeasure::kLegs, 2 * num_modes);
      return {at::complex(at::full_like(n, legs.decay), -legs.omega),
              ClipImaginary(legs.b).conj().resolve_conj()};
    }
  }
  const at::Tensor rate = at::complex(decay, omega);
  return {rate, at::ones_like(rate)};
}

at::Tensor Copies(const at::Tensor& x, std::int64_t count) {
  return x.unsqueeze(0).expand({count, -1});
}

}  // namespace

DiagonalModes InitialModes(DiagonalInit init, std::int64_t num_systems, std::int64_t num_modes) {
  const DiagonalModes system = OneSystem(init, num_modes);
  if (init != DiagonalInit::kDiag) {
    return {Copies(system.rate, num_systems), Copies(system.input, num_systems)};
  }
  const std::int64_t half = num_systems / 2;
  const at::Tensor inv = OneSystem(DiagonalInit::kInv, num_modes).rate;
  return {at::cat({Copies(inv, half), Copies(system.rate, num_systems - half)}),
          Copies(system.input, num_systems)};
}

DiagonalRates::DiagonalRates(const ParameterScope& scope, const at::Tensor& initial,
                             double min_frequency)
    : log_decay_(AddSsmParameter(scope, "A_real", (-at::real(initial)).clamp_min(kSlowest).log())),
      frequency_(AddSsmParameter(scope, "A_imag", at::imag(initial).clamp_min(min_frequency))) {}

at::Tensor DiagonalRates::operator()() const {
  return at::complex(-log_decay_.to(at::kDouble).exp(), frequency_.to(at::kDouble));
}

at::Tensor ShareSystems(const at::Tensor& x, std::int64_t num_channels) {
  return x.size(0) == num_channels ? x : x.repeat({num_channels / x.size(0), 1});
}

}  // namespace mixerbench::models
