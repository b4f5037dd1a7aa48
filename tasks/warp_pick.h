// The picks of lane_pick.h by a warp, whose lanes hold what is drawn from in registers: the steps
// of a pick depend on one another, and a step in registers takes a fifth of the time of one in
// shared memory.
//
// A warp is a team of kWarpLanes lanes (sampler.h) that also has
//   warp.rank()            which lane this is
//   warp.CountTrue(x)      in how many lanes x is true
//   warp.Read(x, lane)     the word x of that lane, as every lane names one
// All lanes must call these together.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tasks/sampling.h"

// For loops over an array that shall stay in registers.
#ifdef __CUDA_ARCH__
#define MB_UNROLL _Pragma("unroll")
#else
#define MB_UNROLL
#endif

namespace mixerbench::tasks {

inline constexpr std::uint32_t kWarpLanes = 32;

// PickTogether for k <= kWarpLanes: lane t owns step t.
template <typename Warp>
MB_HOST_DEVICE void PickByWarp(const Warp& warp, const SampleStream& sample, std::uint32_t stream,
                               std::uint32_t n, std::uint32_t k, std::uint32_t* out) {
  constexpr std::uint32_t kNone = 0xFFFFFFFFu;
  const std::uint32_t t = warp.rank();
  std::uint32_t drawn = kNone;
  if (t < k) drawn = t + UniformFromWord(sample, stream, t, Word(sample, stream, t), n - t);
  std::uint32_t put_by = kNone;
  std::uint32_t put_where_drawn = kNone;
  for (std::uint32_t s = 0; s < k; ++s) {
    const std::uint32_t other = warp.Read(drawn, s);
    if (s < t && other == t) put_by = s;
    if (s < t && other == drawn) put_where_drawn = s;
  }
  // Follows the chain of places while any lane still has one.
  bool moves = put_where_drawn != kNone;
  std::uint32_t value = moves ? put_where_drawn : drawn;
  while (warp.CountTrue(moves) > 0) {
    const std::uint32_t next = warp.Read(put_by, moves ? value : 0);
    moves = moves && next != kNone;
    if (moves) value = next;
  }
  if (t < k) out[t] = value;
}

// UniformFromWord when the words that a rejected draw tries first are at hand. Few branches: what
// is not needed costs less than not to do it.
MB_HOST_DEVICE inline std::uint32_t UniformFromWords(const SampleStream& sample,
                                                     std::uint32_t stream, std::uint32_t j,
                                                     std::uint32_t word, const PhiloxBlock& retries,
                                                     std::uint32_t n) {
  const std::uint64_t product = static_cast<std::uint64_t>(word) * n;
  auto value = static_cast<std::uint32_t>(product >> 32);
  if (static_cast<std::uint32_t>(product) < n) {
    const std::uint32_t threshold = RemainderOfAllWords(n);
    if (static_cast<std::uint32_t>(product) < threshold) {
      bool is_accepted = false;
      MB_UNROLL for (int i = 3; i >= 0; --i) {  // the first that is accepted stays
        const std::uint64_t retried = static_cast<std::uint64_t>(retries.words[i]) * n;
        if (static_cast<std::uint32_t>(retried) >= threshold) {
          value = static_cast<std::uint32_t>(retried >> 32);
          is_accepted = true;
        }
      }
      if (!is_accepted) value = RetriedUniform(sample, stream, j, n, threshold);
    }
  }
  return value;
}

// WeightedPick from up to kMaxSlotsOfWarp slots, of which a lane owns kSlotsPerLane neighbours.
// sum_before(slot): the sum of the weights before a slot, for 0 .. kMaxSlotsOfWarp; past the last
// slot it is the sum of all.
inline constexpr int kSlotsPerLane = 4;
inline constexpr std::uint32_t kMaxSlotsOfWarp = kSlotsPerLane * kWarpLanes;
template <typename Warp, typename SumBefore>
MB_HOST_DEVICE void WeightedPickByWarp(const Warp& warp, const SampleStream& sample,
                                       std::uint32_t stream, const SumBefore& sum_before,
                                       std::uint32_t k, std::uint32_t* out) {
  const std::uint32_t first = kSlotsPerLane * warp.rank();
  std::uint32_t sums[kSlotsPerLane + 1];  // of the weights before the own slots and after each
  MB_UNROLL for (int i = 0; i <= kSlotsPerLane; ++i) {
    sums[i] = sum_before(first + static_cast<std::uint32_t>(i));
  }
  std::uint32_t total = warp.Read(sums[kSlotsPerLane], kWarpLanes - 1);
  for (std::uint32_t begin = 0; begin < k; begin += kWarpLanes) {
    const std::uint32_t own = begin + warp.rank();
    const std::uint32_t word = Word(sample, stream, own);
    const PhiloxBlock retries = RetryWords(sample, stream, own, /*attempt=*/1);
    std::uint32_t slot = 0;  // of draw `own`
    for (std::uint32_t t = begin; t < k && t < begin + kWarpLanes; ++t) {
      PhiloxBlock retry;
      MB_UNROLL for (int i = 0; i < 4; ++i) {
        retry.words[i] = warp.Read(retries.words[i], t - begin);
      }
      const std::uint32_t drawn =
          UniformFromWords(sample, stream, t, warp.Read(word, t - begin), retry, total);
      // The slot is the first whose sum exceeds `drawn`.
      std::uint32_t place = 0;
      std::uint32_t weight = sums[1] - sums[0];
      MB_UNROLL for (int i = 1; i < kSlotsPerLane; ++i) {
        if (sums[i] <= drawn) {
          place = static_cast<std::uint32_t>(i);
          weight = sums[i + 1] - sums[i];
        }
      }
      const std::uint32_t owner = warp.CountTrue(sums[kSlotsPerLane] <= drawn);
      weight = warp.Read(weight, owner);
      place = warp.Read(first + place, owner);
      if (t == own) slot = place;
      MB_UNROLL for (int i = 0; i <= kSlotsPerLane; ++i) sums[i] -= sums[i] > drawn ? weight : 0;
      total -= weight;
    }
    if (own < k) out[own] = slot;
  }
}

}  // namespace mixerbench::tasks
