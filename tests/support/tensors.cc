// SPDX-License-Identifier: Apache-2.0
#include "tests/support/tensors.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/tensor.h>

#include "models/checks/tensors.h"

namespace mixerbench::testing {

at::Tensor RandomNormal(at::IntArrayRef sizes, std::uint64_t seed, at::ScalarType dtype,
                        at::Device device) {
  return models::checks::RandomNormal(sizes, seed, dtype, device);
}

at::Tensor RandomUniform(at::IntArrayRef sizes, std::uint64_t seed, at::ScalarType dtype,
                         at::Device device) {
  return at::rand(sizes, models::checks::GeneratorOn(device, seed),
                  at::device(device).dtype(at::kDouble))
      .to(dtype);
}

at::Tensor RandomUnitRows(at::IntArrayRef sizes, std::uint64_t seed) {
  const at::Tensor x = RandomNormal(sizes, seed);
  return x / x.norm(2, -1, /*keepdim=*/true);
}

at::Tensor Longs(const std::vector<std::int64_t>& values) { return at::tensor(values, at::kLong); }

at::Tensor StridedCopy(const at::Tensor& x) { return models::checks::StridedCopy(x); }

PoisonUninitializedMemory::PoisonUninitializedMemory() {
  const models::checks::MemoryFill earlier = models::checks::PoisonMemory();
  deterministic_ = earlier.deterministic;
  warn_only_ = earlier.warn_only;
  fill_ = earlier.fill;
}

PoisonUninitializedMemory::~PoisonUninitializedMemory() {
  models::checks::SetMemoryFill(
      {.deterministic = deterministic_, .warn_only = warn_only_, .fill = fill_});
}

}  // namespace mixerbench::testing
