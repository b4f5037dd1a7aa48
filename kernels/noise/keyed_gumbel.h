// Gumbel noise as a pure function of a 64-bit seed and the element's index.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "base/philox.h"

namespace mixerbench::kernels {

// Elements that share a Philox block, one word each.
constexpr int kGumbelBlock = 4;

struct GumbelNoiseBlock {
  float x[kGumbelBlock];
};

// The elements kGumbelBlock * block + i: -ln(-ln u), u uniform on the middles of 2^23 intervals of
// (0, 1), so that both logarithms are finite.
MB_HOST_DEVICE inline GumbelNoiseBlock GumbelBlock(std::uint64_t seed, std::uint64_t block) {
  const PhiloxBlock bits =
      Philox4x32(static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0,
                 {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  GumbelNoiseBlock noise;
  for (int i = 0; i < kGumbelBlock; ++i) {
    const float u = (static_cast<float>(bits.words[i] >> 9) + 0.5F) * 0x1p-23F;
    noise.x[i] = -logf(-logf(u));
  }
  return noise;
}

}  // namespace mixerbench::kernels
