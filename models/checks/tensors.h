// What checks draw and how they compare.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

namespace mixerbench::models::checks {

// Of that device's kind, freshly seeded.
at::Generator GeneratorOn(at::Device device, std::uint64_t seed);

// Standard normal values, a function of (sizes, seed) and the kind of device alone, drawn there in
// float64 and then rounded: the same seed gives the same values in every precision.
at::Tensor RandomNormal(at::IntArrayRef sizes, std::uint64_t seed, at::ScalarType dtype,
                        at::Device device);

// The same values in memory that is not contiguous, with NaN between them: code that assumes
// contiguity reads a NaN.
at::Tensor StridedCopy(const at::Tensor& x);

// ||actual - expected|| / ||expected||, computed in float64 over all elements; ||actual|| when
// `expected` is zero everywhere. Infinite when the shapes differ or a value is not finite, so that
// no comparison with a tolerance can pass by accident.
double RelativeError(const at::Tensor& actual, const at::Tensor& expected);

// True when dtype, shape and every bit agree; unlike at::equal, NaN equals the same NaN.
bool BitwiseEqual(const at::Tensor& a, const at::Tensor& b);

// Of ATen: what becomes of memory that it hands out uninitialised.
struct MemoryFill {
  bool deterministic = false;
  bool warn_only = false;
  bool fill = false;
};

// From now on it holds NaN (or the largest integer), so an element that is read before it is
// written shows. Returns what held until then, for SetMemoryFill.
MemoryFill PoisonMemory();
void SetMemoryFill(const MemoryFill& fill);

}  // namespace mixerbench::models::checks
