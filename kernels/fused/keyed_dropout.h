// Which elements dropout keeps: a pure function of a 64-bit seed and the element's index, so that
// the backward pass draws the mask again instead of reading it, and the CPU and the GPU agree.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/philox.h"

namespace mixerbench::kernels::fused {

// An element has 16 random bits: dropout was most of the time of an embedding with 32.
constexpr int kDropoutBits = 16;

// Elements whose bits are below the threshold are dropped.
struct DropoutRule {
  std::uint32_t threshold = 0;  // 0: nothing is dropped
  float scale = 1;              // of what is kept: 1 / (1 - probability that an element is dropped)
};

// 0 <= p < 1, rounded to 2^-16 below 1.
inline DropoutRule MakeDropoutRule(double p) {
  constexpr double kRange = 1 << kDropoutBits;
  const auto threshold = static_cast<std::uint32_t>(std::min(p * kRange + 0.5, kRange - 1));
  return {threshold, static_cast<float>(kRange / (kRange - threshold))};
}

// Of the elements kDropoutBlock * block + i: bit i is set when the element is kept.
constexpr int kDropoutBlock = 128 / kDropoutBits;
MB_HOST_DEVICE inline unsigned DropoutKept(DropoutRule rule, std::uint64_t seed,
                                           std::uint64_t block) {
  const PhiloxBlock bits =
      Philox4x32(static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0,
                 {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  // Elements are the upper halves of what is compared: one instruction less for every second one.
  const std::uint32_t threshold = rule.threshold << kDropoutBits;
  unsigned kept = 0;
  for (int i = 0; i < kDropoutBlock; ++i) {
    const std::uint32_t word = bits.words[i / 2];
    if ((i % 2 == 0 ? word << kDropoutBits : word) >= threshold) kept |= 1u << i;
  }
  return kept;
}

// Their factors: 0 or `rule.scale`.
struct DropoutFactors {
  float x[kDropoutBlock];
};

MB_HOST_DEVICE inline DropoutFactors DropoutBlock(DropoutRule rule, std::uint64_t seed,
                                                  std::uint64_t block) {
  const unsigned kept = DropoutKept(rule, seed, block);
  DropoutFactors factors;
  for (int i = 0; i < kDropoutBlock; ++i) factors.x[i] = (kept >> i & 1) != 0 ? rule.scale : 0;
  return factors;
}

}  // namespace mixerbench::kernels::fused
