// Tensors that tests draw: keyed random values and awkward memory layouts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace mixerbench::testing {

// Standard normal values, a function of (sizes, seed) and the kind of device alone, drawn there in
// float64 and then rounded: the same seed gives the same values in every precision.
at::Tensor RandomNormal(at::IntArrayRef sizes, std::uint64_t seed,
                        at::ScalarType dtype = at::kDouble, at::Device device = at::kCPU);

// Uniform in [0, 1), under the same rules.
at::Tensor RandomUniform(at::IntArrayRef sizes, std::uint64_t seed,
                         at::ScalarType dtype = at::kDouble, at::Device device = at::kCPU);

// RandomNormal in float64, L2-normalised over the last axis.
at::Tensor RandomUnitRows(at::IntArrayRef sizes, std::uint64_t seed);

// [n] int64: token ids, positions, a seed.
at::Tensor Longs(const std::vector<std::int64_t>& values);

// The same values in memory that is not contiguous, with NaN between them: code that assumes
// contiguity reads a NaN.
at::Tensor StridedCopy(const at::Tensor& x);

// While alive, memory that ATen hands out uninitialised holds NaN (or the largest integer), so an
// element that is read before it is written shows.
class PoisonUninitializedMemory {
 public:
  PoisonUninitializedMemory();
  ~PoisonUninitializedMemory();
  PoisonUninitializedMemory(const PoisonUninitializedMemory&) = delete;
  PoisonUninitializedMemory& operator=(const PoisonUninitializedMemory&) = delete;

 private:
  bool deterministic_;
  bool warn_only_;
  bool fill_;
};

}  // namespace mixerbench::testing
