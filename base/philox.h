// Philox4x32-10: 128 random bits as a pure function of a 128-bit counter and a 64-bit key, the same
// on the CPU and the GPU. Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC
// 2011).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define MIXERBENCH_HOST_DEVICE __host__ __device__
#else
#define MIXERBENCH_HOST_DEVICE
#endif

namespace mixerbench {

struct PhiloxBlock {
  std::uint32_t word[4];
};

MIXERBENCH_HOST_DEVICE inline PhiloxBlock Philox4x32(PhiloxBlock counter, std::uint32_t key0,
                                                     std::uint32_t key1) {
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53u} * counter.word[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57u} * counter.word[2];
    counter = {{static_cast<std::uint32_t>(product1 >> 32) ^ counter.word[1] ^ key0,
                static_cast<std::uint32_t>(product1),
                static_cast<std::uint32_t>(product0 >> 32) ^ counter.word[3] ^ key1,
                static_cast<std::uint32_t>(product0)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

// Uniform in [0, 1) on a grid of 2^-53.
MIXERBENCH_HOST_DEVICE inline double UniformFromBits(std::uint32_t high, std::uint32_t low) {
  const std::uint64_t bits = (std::uint64_t{high} << 32 | low) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

}  // namespace mixerbench
