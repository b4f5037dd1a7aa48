// Sampling without replacement by a team of lanes (sampler.h), none of which works while the others
// wait: Pick of sampling.h, and weighted picks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tasks/sampler.h"
#include "tasks/sampling.h"
#include "tasks/warp_pick.h"

namespace mixerbench::tasks {

// Up to here a team picks together, which takes about k^2 steps; more are left to one lane, which
// takes time in proportion to k.
inline constexpr std::uint32_t kMaxPickedTogether = 1024;

MB_HOST_DEVICE constexpr std::int64_t MaxWords(std::int64_t a, std::int64_t b) {
  return a > b ? a : b;
}

// Working memory of PickTogether, in words.
MB_HOST_DEVICE constexpr std::int64_t PickTogetherScratchWords(std::uint32_t n, std::uint32_t k) {
  return MaxWords(PickScratchWords(n, k), k <= kMaxPickedTogether ? 2 * std::int64_t{k} : 0);
}

// Pick(sample, stream, n, k, 0, out, ...) by a team. out: [k]; scratch: [PickTogetherScratchWords].
// Does not wait at the end.
//
// Step t of the shuffle swaps places t and r[t] >= t. All r are drawn first. Place t holds, when
// step t begins, t itself or what the last earlier step s with r[s] = t put there, which is what
// place s held at step s, and so on: a chain of places to follow. Step t takes what place r[t]
// holds: r[t] itself, or what the last earlier step s with r[s] = r[t] put there.
template <typename Team>
MB_HOST_DEVICE void PickTogether(const Team& team, const SampleStream& sample, std::uint32_t stream,
                                 std::uint32_t n, std::uint32_t k, std::uint32_t* out,
                                 std::uint32_t* scratch) {
  if constexpr (!Team::kIsParallel) {
    Pick(sample, stream, n, k, 0, out, scratch);
  } else {
    if constexpr (Team::kIsWarp) {
      if (k <= kWarpLanes) {
        PickByWarp(team, sample, stream, n, k, out);
        return;
      }
    }
    if (k > kMaxPickedTogether) {
      team.Serial([&] { Pick(sample, stream, n, k, 0, out, scratch); });
      return;
    }
    constexpr std::uint32_t kNone = 0xFFFFFFFFu;
    std::uint32_t* const drawn = scratch;     // [k]: r
    std::uint32_t* const put_by = drawn + k;  // [k]: which step put something into place t, if any
    ForEachWord(team, sample, stream, 0, k, [&](std::uint32_t t, std::uint32_t word) {
      drawn[t] = t + UniformFromWord(sample, stream, t, word, n - t);
    });
    team.Sync();
    team.ForEach(k, [&](std::int64_t i) {
      const auto t = static_cast<std::uint32_t>(i);
      const std::uint32_t own = drawn[t];
      std::uint32_t put_here = kNone;
      std::uint32_t put_where_drawn = kNone;
      for (std::uint32_t s = 0; s < t; ++s) {
        if (drawn[s] == t) put_here = s;
        if (drawn[s] == own) put_where_drawn = s;
      }
      put_by[t] = put_here;
      out[t] = put_where_drawn;
    });
    team.Sync();
    team.ForEach(k, [&](std::int64_t t) {
      std::uint32_t value = drawn[t];
      if (out[t] != kNone) {
        value = out[t];
        while (put_by[value] != kNone) value = put_by[value];
      }
      out[t] = value;
    });
  }
}

// Slots of a weighted choice stand in blocks of as many as a warp has lanes.
inline constexpr std::uint32_t kSlotsPerBlock = 32;

MB_HOST_DEVICE constexpr std::uint32_t NumSlotBlocks(std::uint32_t num_slots) {
  return (num_slots + kSlotsPerBlock - 1) / kSlotsPerBlock;
}

// Words of the sums that a weighted choice reads and uses up: for every block the sum of the
// weights before it, then for every slot, padded to whole blocks, the sum of the weights of its
// block up to and including it.
MB_HOST_DEVICE constexpr std::int64_t WeightSumsWords(std::uint32_t num_slots) {
  return std::int64_t{NumSlotBlocks(num_slots)} * (1 + kSlotsPerBlock);
}

// weights: [num_slots], their total below 2^32. Returns [WeightSumsWords].
std::vector<std::uint32_t> WeightSums(std::span<const std::uint32_t> weights);

// Weighted choice of k <= num_slots distinct slots, one after the other: each with probability
// proportional to its weight among the slots not yet chosen (Plackett-Luce).
// weight_sums: WeightSums of the weights; out: [k]; scratch: [WeightSumsWords].
// O(k (num_slots / 32 + 32)) by one lane, O(k (1 + num_slots / 1024)) by a warp, which holds up to
// kMaxSlotsOfWarp slots in registers.
template <typename Team>
MB_HOST_DEVICE void WeightedPick(const Team& team, const SampleStream& sample, std::uint32_t stream,
                                 const std::uint32_t* weight_sums, std::uint32_t num_slots,
                                 std::uint32_t k, std::uint32_t* out, std::uint32_t* scratch) {
  const std::uint32_t num_blocks = NumSlotBlocks(num_slots);
  if constexpr (Team::kIsWarp) {
    if (num_slots <= kMaxSlotsOfWarp) {
      const auto sum_before = [&](std::uint32_t slot) {
        if (slot == 0) return std::uint32_t{0};
        const std::uint32_t last = slot <= num_slots ? slot - 1 : num_slots - 1;
        return weight_sums[last / kSlotsPerBlock] + weight_sums[num_blocks + last];
      };
      WeightedPickByWarp(team, sample, stream, sum_before, k, out);
      team.Sync();
      return;
    }
  }
  std::uint32_t* const before_block = scratch;                // [num_blocks]
  std::uint32_t* const in_block = before_block + num_blocks;  // [num_blocks * kSlotsPerBlock]
  team.ForEach(WeightSumsWords(num_slots), [&](std::int64_t i) { scratch[i] = weight_sums[i]; });
  ForEachWord(team, sample, stream, 0, k,
              [&](std::uint32_t t, std::uint32_t word) { out[t] = word; });
  team.Sync();
  std::uint32_t total = before_block[num_blocks - 1] + in_block[num_blocks * kSlotsPerBlock - 1];
  for (std::uint32_t t = 0; t < k; ++t) {
    const std::uint32_t drawn = UniformFromWord(sample, stream, t, out[t], total);
    const std::uint32_t block =
        team.Count(num_blocks, [&](std::uint32_t b) { return before_block[b] <= drawn; }) - 1;
    const std::uint32_t rest = drawn - before_block[block];
    std::uint32_t* const sums = in_block + std::size_t{block} * kSlotsPerBlock;
    const std::uint32_t place =
        team.Count(kSlotsPerBlock, [&](std::uint32_t i) { return sums[i] <= rest; });
    const std::uint32_t weight = sums[place] - (place == 0 ? 0 : sums[place - 1]);
    total -= weight;
    team.Sync();  // every lane has read the sums
    team.ForEach(kSlotsPerBlock, [&](std::int64_t i) { sums[i] -= i >= place ? weight : 0; });
    team.ForEach(num_blocks, [&](std::int64_t b) { before_block[b] -= b > block ? weight : 0; });
    team.Serial([&] { out[t] = block * kSlotsPerBlock + place; });
    team.Sync();
  }
}

}  // namespace mixerbench::tasks
