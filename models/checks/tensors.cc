// SPDX-License-Identifier: Apache-2.0
#include "models/checks/tensors.h"

#include <cstring>
#include <limits>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/view_as_real.h>

namespace mixerbench::models::checks {

at::Generator GeneratorOn(at::Device device, std::uint64_t seed) {
  if (device.is_cpu()) return at::detail::createCPUGenerator(seed);
  at::Generator generator = at::globalContext()
                                .getAcceleratorHooksInterface(device.type())
                                .getNewGenerator(device.index());
  generator.set_current_seed(seed);
  return generator;
}

at::Tensor RandomNormal(at::IntArrayRef sizes, std::uint64_t seed, at::ScalarType dtype,
                        at::Device device) {
  return at::randn(sizes, GeneratorOn(device, seed), at::device(device).dtype(at::kDouble))
      .to(dtype);
}

at::Tensor StridedCopy(const at::Tensor& x) {
  std::vector<std::int64_t> sizes = x.sizes().vec();
  sizes.push_back(2);
  auto wide = at::full(sizes, std::numeric_limits<double>::quiet_NaN(), x.options());
  auto slice = wide.select(-1, 0);
  slice.copy_(x.detach());
  return slice;
}

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

MemoryFill PoisonMemory() {
  const at::Context& context = at::globalContext();
  const MemoryFill earlier = {context.deterministicAlgorithms(),
                              context.deterministicAlgorithmsWarnOnly(),
                              context.deterministicFillUninitializedMemory()};
  SetMemoryFill({.deterministic = true, .warn_only = true, .fill = true});
  return earlier;
}

void SetMemoryFill(const MemoryFill& fill) {
  at::globalContext().setDeterministicAlgorithms(fill.deterministic, fill.warn_only);
  at::globalContext().setDeterministicFillUninitializedMemory(fill.fill);
}

}  // namespace mixerbench::models::checks
