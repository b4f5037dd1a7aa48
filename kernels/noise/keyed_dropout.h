// Which elements dropout keeps: a pure function of a 64-bit seed and the element's index, so that
// the backward pass draws the mask again instead of reading it, and the CPU and the GPU agree.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/philox.h"

namespace mixerbench::kernels {

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

// The keys of the rounds of Philox4x32: whoever draws many blocks makes them once.
struct DropoutKeys {
  PhiloxKey rounds[kPhiloxRounds];
};

MB_HOST_DEVICE inline DropoutKeys MakeDropoutKeys(std::uint64_t seed) {
  PhiloxKey key{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
  DropoutKeys keys;
  for (PhiloxKey& round : keys.rounds) {
    round = key;
    AdvancePhiloxKey(key);
  }
  return keys;
}

// The random bits of the elements kDropoutBlock * block + i: a half of a word each, the lower
// first.
constexpr int kDropoutBlock = 128 / kDropoutBits;
MB_HOST_DEVICE inline PhiloxBlock DropoutBits(const DropoutKeys& keys, std::uint64_t block) {
  PhiloxBlock bits{
      {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0}};
  for (const PhiloxKey& key : keys.rounds) {
    PhiloxRound(bits.words[0], bits.words[1], bits.words[2], bits.words[3], key);
  }
  return bits;
}

// Their factors: 0 or `rule.scale`.
struct DropoutFactors {
  float x[kDropoutBlock];
};

MB_HOST_DEVICE inline DropoutFactors DropoutBlock(DropoutRule rule, std::uint64_t seed,
                                                  std::uint64_t block) {
  const PhiloxBlock bits = DropoutBits(MakeDropoutKeys(seed), block);
  DropoutFactors factors;
  for (int i = 0; i < kDropoutBlock; ++i) {
    const std::uint32_t word = bits.words[i / 2];
    const std::uint32_t element = i % 2 == 0 ? word & 0xffffu : word >> kDropoutBits;
    factors.x[i] = element >= rule.threshold ? rule.scale : 0;
  }
  return factors;
}

}  // namespace mixerbench::kernels
