// SPDX-License-Identifier: Apache-2.0
#include "tests/support/compare.h"

#include <cstring>
#include <limits>

#include <ATen/TensorOperators.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/view_as_real.h>

namespace mixerbench::testing {

double RelativeError(const at::Tensor& actual, const at::Tensor& expected) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (!actual.defined() || !expected.defined() || actual.sizes() != expected.sizes()) {
    return kInfinity;
  }
  if (actual.is_complex() != expected.is_complex()) return kInfinity;
  const auto doubles = [](const at::Tensor& x) {
    const auto parts = x.is_complex() ? at::view_as_real(x.resolve_conj()) : x;
    return parts.detach().cpu().to(at::kDouble);
  };
  const auto a = doubles(actual);
  const auto b = doubles(expected);
  if (!at::isfinite(a).all().item<bool>() || !at::isfinite(b).all().item<bool>()) return kInfinity;
  const double reference = b.norm().item<double>();
  const double difference = (a - b).norm().item<double>();
  return reference > 0 ? difference / reference : difference;
}

bool BitwiseEqual(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) return false;
  const auto x = a.detach().cpu().contiguous();
  const auto y = b.detach().cpu().contiguous();
  return x.nbytes() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

}  // namespace mixerbench::testing
