// What stands between the queries of the MQAR family: gaps and filler.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "base/fields.h"
#include "tasks/lane_pick.h"
#include "tasks/sampler.h"

namespace mixerbench::tasks {

enum class Noise : std::int32_t {
  kZero,        // token 0
  kRandom,      // any token
  kRandomSafe,  // any token but the keys of the sample
};

// The keys of a sample: words[i] + offset, ascending.
struct SortedKeys {
  const std::uint32_t* words;
  std::uint32_t count;
  std::uint32_t offset;

  // The token of rank `rank` among those that are no key.
  MB_HOST_DEVICE std::uint32_t SkipKeys(std::uint32_t rank) const {
    // Key number i is passed when at most `rank` other tokens stand before it.
    std::uint32_t low = 0;
    for (std::uint32_t high = count; low < high;) {
      const std::uint32_t middle = (low + high) / 2;
      if (words[middle] + offset - middle <= rank) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return rank + low;
  }
};

// Draws the slots of k queries. gap_sums: WeightSums of the gap weights; last_gap: the largest
// slot, written for kTargetOnly alone, which keeps that query.
template <typename Team>
MB_HOST_DEVICE void PickGaps(const Team& team, const SampleStream& sample, std::uint32_t stream,
                             const std::uint32_t* gap_sums, std::uint32_t num_slots,
                             std::uint32_t k, LabelMode mode, std::uint32_t* gaps,
                             std::uint32_t* last_gap, std::uint32_t* scratch) {
  WeightedPick(team, sample, stream, gap_sums, num_slots, k, gaps, scratch);
  if (mode != LabelMode::kTargetOnly) return;
  team.Serial([&] {
    *last_gap = 0;
    for (std::uint32_t j = 0; j < k; ++j) {
      if (gaps[j] > *last_gap) *last_gap = gaps[j];
    }
  });
}

// Writes filler at positions first..last-1 of `inputs`; position t uses draw t of `stream`. `keys`
// is read for kRandomSafe only.
template <typename Lanes>
MB_HOST_DEVICE void WriteFiller(const Lanes& lanes, const SampleStream& sample,
                                std::uint32_t stream, Noise noise, std::uint32_t vocab_size,
                                const SortedKeys& keys, std::uint32_t first, std::uint32_t last,
                                std::int32_t* inputs) {
  switch (noise) {
    case Noise::kZero:
      lanes.ForEach(last - first, [&](std::int64_t i) { inputs[first + i] = 0; });
      return;
    case Noise::kRandom:
      ForEachWord(lanes, sample, stream, first, last, [&](std::uint32_t t, std::uint32_t word) {
        inputs[t] = static_cast<std::int32_t>(UniformFromWord(sample, stream, t, word, vocab_size));
      });
      return;
    case Noise::kRandomSafe:
      ForEachWord(lanes, sample, stream, first, last, [&](std::uint32_t t, std::uint32_t word) {
        inputs[t] = static_cast<std::int32_t>(
            keys.SkipKeys(UniformFromWord(sample, stream, t, word, vocab_size - keys.count)));
      });
      return;
  }
}

}  // namespace mixerbench::tasks

template <>
struct mixerbench::EnumNames<mixerbench::tasks::Noise> {
  using Noise = tasks::Noise;
  static constexpr std::pair<Noise, std::string_view> kNames[] = {
      {Noise::kZero, "zero"}, {Noise::kRandom, "random"}, {Noise::kRandomSafe, "random_safe"}};
};
