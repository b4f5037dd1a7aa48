// SPDX-License-Identifier: Apache-2.0
#include "tests/support/tensors.h"

#include <limits>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>

namespace mixerbench::testing {

namespace {

at::Generator MakeGenerator(at::Device device, std::uint64_t seed) {
  if (device.is_cpu()) return at::detail::createCPUGenerator(seed);
  at::Generator generator = at::globalContext()
                                .getAcceleratorHooksInterface(device.type())
                                .getNewGenerator(device.index());
  generator.set_current_seed(seed);
  return generator;
}

at::TensorOptions Float64On(at::Device device) { return at::device(device).dtype(at::kDouble); }

}  // namespace

at::Tensor RandomNormal(at::IntArrayRef sizes, std::uint64_t seed, at::ScalarType dtype,
                        at::Device device) {
  return at::randn(sizes, MakeGenerator(device, seed), Float64On(device)).to(dtype);
}

at::Tensor RandomUniform(at::IntArrayRef sizes, std::uint64_t seed, at::ScalarType dtype,
                         at::Device device) {
  return at::rand(sizes, MakeGenerator(device, seed), Float64On(device)).to(dtype);
}

at::Tensor RandomUnitRows(at::IntArrayRef sizes, std::uint64_t seed) {
  const at::Tensor x = RandomNormal(sizes, seed);
  return x / x.norm(2, -1, /*keepdim=*/true);
}

at::Tensor Longs(const std::vector<std::int64_t>& values) { return at::tensor(values, at::kLong); }

at::Tensor StridedCopy(const at::Tensor& x) {
  std::vector<std::int64_t> sizes = x.sizes().vec();
  sizes.push_back(2);
  auto wide = at::full(sizes, std::numeric_limits<double>::quiet_NaN(), x.options());
  auto slice = wide.select(-1, 0);
  slice.copy_(x.detach());
  return slice;
}

PoisonUninitializedMemory::PoisonUninitializedMemory()
    : deterministic_(at::globalContext().deterministicAlgorithms()),
      warn_only_(at::globalContext().deterministicAlgorithmsWarnOnly()),
      fill_(at::globalContext().deterministicFillUninitializedMemory()) {
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  at::globalContext().setDeterministicFillUninitializedMemory(true);
}

PoisonUninitializedMemory::~PoisonUninitializedMemory() {
  at::globalContext().setDeterministicAlgorithms(deterministic_, warn_only_);
  at::globalContext().setDeterministicFillUninitializedMemory(fill_);
}

}  // namespace mixerbench::testing
