// Which elements dropout keeps: a pure function of a 64-bit seed and the element's index, so that
// the backward pass draws the mask again instead of reading it, and the CPU and the GPU agree.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/philox.h"

namespace mixerbench::kernels::fused {

// Elements below this many 2^-32 of the unit interval are dropped.
struct DropoutRule {
  std::uint32_t threshold = 0;  // 0: nothing is dropped
  float scale = 1;              // of what is kept: 1 / (1 - p)
};

// 0 <= p < 1, to 2^-32.
inline DropoutRule MakeDropoutRule(double p) {
  return {static_cast<std::uint32_t>(p * 4294967296.0), static_cast<float>(1 / (1 - p))};
}

// Factors of the four elements 4 * block .. 4 * block + 3: 0 or `rule.scale`.
struct DropoutFactors {
  float x[4];
};

MB_HOST_DEVICE inline DropoutFactors DropoutBlock(DropoutRule rule, std::uint64_t seed,
                                                  std::uint64_t block) {
  const PhiloxBlock bits =
      Philox4x32(static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0,
                 {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  DropoutFactors factors;
  for (int i = 0; i < 4; ++i) factors.x[i] = bits.words[i] >= rule.threshold ? rule.scale : 0;
  return factors;
}

}  // namespace mixerbench::kernels::fused
