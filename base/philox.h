// Philox4x32-10: 128 random bits as a pure function of a 128-bit counter and a 64-bit key, the same
// on the CPU and the GPU. Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC
// 2011).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define MB_HOST_DEVICE __host__ __device__
#else
#define MB_HOST_DEVICE
#endif

namespace mixerbench {

struct PhiloxKey {
  std::uint32_t k0 = 0;
  std::uint32_t k1 = 0;
  friend bool operator==(const PhiloxKey&, const PhiloxKey&) = default;
};

struct PhiloxBlock {
  std::uint32_t words[4];
};

inline constexpr int kPhiloxRounds = 10;

// One round on the counter; the next one takes the advanced key.
MB_HOST_DEVICE inline void PhiloxRound(std::uint32_t& c0, std::uint32_t& c1, std::uint32_t& c2,
                                       std::uint32_t& c3, PhiloxKey key) {
  constexpr std::uint64_t kMultiplier0 = 0xD2511F53u;
  constexpr std::uint64_t kMultiplier1 = 0xCD9E8D57u;
  const std::uint64_t product0 = kMultiplier0 * c0;
  const std::uint64_t product1 = kMultiplier1 * c2;
  c0 = static_cast<std::uint32_t>(product1 >> 32) ^ c1 ^ key.k0;
  c1 = static_cast<std::uint32_t>(product1);
  c2 = static_cast<std::uint32_t>(product0 >> 32) ^ c3 ^ key.k1;
  c3 = static_cast<std::uint32_t>(product0);
}

MB_HOST_DEVICE inline void AdvancePhiloxKey(PhiloxKey& key) {
  key.k0 += 0x9E3779B9u;
  key.k1 += 0xBB67AE85u;
}

// Counter (c0,c1,c2,c3) and key to four uniform words.
MB_HOST_DEVICE inline PhiloxBlock Philox4x32(std::uint32_t c0, std::uint32_t c1, std::uint32_t c2,
                                             std::uint32_t c3, PhiloxKey key) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    PhiloxRound(c0, c1, c2, c3, key);
    AdvancePhiloxKey(key);
  }
  return {{c0, c1, c2, c3}};
}

// Uniform in [0, 1) on a grid of 2^-53.
MB_HOST_DEVICE inline double UniformFromBits(std::uint32_t high, std::uint32_t low) {
  const std::uint64_t bits = (std::uint64_t{high} << 32 | low) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

}  // namespace mixerbench
