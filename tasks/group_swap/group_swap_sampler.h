// The sampler of group words with swaps; see group_swap.md for the layout and the stream.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tasks/lane_scan.h"
#include "tasks/sampler.h"

namespace mixerbench::tasks::group_swap {

inline constexpr std::uint32_t kMaxPoints = 7;

struct GroupSwapSampler {
  std::uint32_t num_points = 0;
  std::uint32_t input_seq_len = 0;

  // A permutation: the images of 0, 1, ... in three bits each.
  using Places = ScanState<1>;
  static constexpr std::uint32_t kBits = 3;
  static constexpr std::uint32_t kMask = (1u << kBits) - 1;

  MB_HOST_DEVICE std::uint32_t num_swaps() const { return num_points * (num_points - 1) / 2; }
  MB_HOST_DEVICE std::int64_t scratch_words() const { return ScanScratchWords<1>(); }

  MB_HOST_DEVICE Places Identity() const {
    Places places{};
    for (std::uint32_t point = 0; point < num_points; ++point) {
      places.words[0] |= point << (kBits * point);
    }
    return places;
  }

  // The swap of a token.
  MB_HOST_DEVICE Places SwapOf(std::uint32_t token) const {
    std::uint32_t low = 0;
    for (; token >= num_points - 1 - low; ++low) token -= num_points - 1 - low;
    const std::uint32_t high = low + 1 + token;
    Places places = Identity();
    const std::uint32_t both = low ^ high;
    places.words[0] ^= both << (kBits * low) | both << (kBits * high);
    return places;
  }

  // First a, then b.
  MB_HOST_DEVICE Places Then(const Places& a, const Places& b) const {
    Places product{};
    for (std::uint32_t point = 0; point < num_points; ++point) {
      const std::uint32_t through = a.words[0] >> (kBits * point) & kMask;
      product.words[0] |= (b.words[0] >> (kBits * through) & kMask) << (kBits * point);
    }
    return product;
  }

  template <typename Lanes>
  MB_HOST_DEVICE void Generate(const Lanes& lanes, const SampleStream& sample, LabelMode mode,
                               std::int32_t* inputs, std::int32_t* labels,
                               std::uint32_t* scratch) const {
    constexpr std::uint32_t kSwapStream = 0;
    ForEachWord(
        lanes, sample, kSwapStream, 0, input_seq_len, [&](std::uint32_t t, std::uint32_t word) {
          inputs[t] =
              static_cast<std::int32_t>(UniformFromWord(sample, kSwapStream, t, word, num_swaps()));
          labels[t] = kIgnore;
        });
    lanes.Sync();
    InclusiveScan(
        lanes, input_seq_len, Identity(),
        [&](std::int64_t t) { return SwapOf(static_cast<std::uint32_t>(inputs[t])); },
        [this](const Places& a, const Places& b) { return Then(a, b); }, scratch,
        [&](std::int64_t t, const Places& places) {
          if (mode == LabelMode::kTargetOnly && t + 1 != input_seq_len) return;
          labels[t] = static_cast<std::int32_t>(places.words[0] & kMask);
        });
  }
};

}  // namespace mixerbench::tasks::group_swap
