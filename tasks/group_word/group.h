// Finite groups as tables that a sampler can read: symmetric, alternating and cyclic groups and
// their products, with elements numbered as group_word.md says.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/philox.h"
#include "tasks/lane_scan.h"

namespace mixerbench::tasks::group_word {

inline constexpr std::uint32_t kMaxFactors = 3;
inline constexpr std::uint32_t kMaxPoints = 7;  // that a permutation moves

// A permutation is kept as one word: the images of 0, 1, ... in three bits each.
inline constexpr std::uint32_t kBitsPerPoint = 3;

// Its rank is looked up in two parts, by the images of 0..3 and by those of 4..6.
inline constexpr std::uint32_t kLowPoints = 4;
inline constexpr std::uint32_t kLowWords = 1u << (kBitsPerPoint * kLowPoints);
inline constexpr std::uint32_t kHighWords = 1u << (kBitsPerPoint * (kMaxPoints - kLowPoints));

// S_n or A_n with its tables, or Z_n without.
struct Factor {
  std::uint32_t order = 0;
  std::uint32_t num_points = 0;  // 0: cyclic
  // Where its tables begin: permutations by rank [order], the two parts of the rank of a
  // permutation in S_n [kLowWords], [kHighWords].
  std::uint32_t first_word = 0;
  bool is_alternating = false;
};

// Element of the group: one word for each factor, a permutation or a residue.
using GroupElement = ScanState<kMaxFactors>;

struct Group {
  std::uint32_t num_factors = 0;
  Factor factors[kMaxFactors] = {};

  MB_HOST_DEVICE std::uint32_t order() const {
    std::uint32_t product = 1;
    for (std::uint32_t f = 0; f < num_factors; ++f) product *= factors[f].order;
    return product;
  }

  MB_HOST_DEVICE GroupElement Identity() const {
    GroupElement element{};
    for (std::uint32_t f = 0; f < num_factors; ++f) {
      for (std::uint32_t point = 0; point < factors[f].num_points; ++point) {
        element.words[f] |= point << (kBitsPerPoint * point);
      }
    }
    return element;
  }

  // The element with an id; the last factor varies fastest.
  MB_HOST_DEVICE GroupElement ElementOf(std::uint32_t id, const std::uint32_t* tables) const {
    GroupElement element{};
    for (std::uint32_t f = num_factors; f-- > 0;) {
      const std::uint32_t rank = f == 0 ? id : id % factors[f].order;
      if (f != 0) id /= factors[f].order;
      element.words[f] = factors[f].num_points == 0 ? rank : tables[factors[f].first_word + rank];
    }
    return element;
  }

  MB_HOST_DEVICE std::uint32_t IdOf(const GroupElement& element,
                                    const std::uint32_t* tables) const {
    std::uint32_t id = 0;
    for (std::uint32_t f = 0; f < num_factors; ++f) {
      std::uint32_t rank = element.words[f];
      if (factors[f].num_points != 0) {
        const std::uint32_t* const low = tables + factors[f].first_word + factors[f].order;
        rank = low[element.words[f] % kLowWords] + low[kLowWords + element.words[f] / kLowWords];
        // Of two neighbours in S_n, which differ in their last two images, one is even.
        if (factors[f].is_alternating) rank /= 2;
      }
      id = id * factors[f].order + rank;
    }
    return id;
  }

  // First a, then b: point j goes to b[a[j]].
  MB_HOST_DEVICE GroupElement Then(const GroupElement& a, const GroupElement& b) const {
    GroupElement product{};
    for (std::uint32_t f = 0; f < num_factors; ++f) {
      if (factors[f].num_points == 0) {
        const std::uint32_t sum = a.words[f] + b.words[f];
        product.words[f] = sum < factors[f].order ? sum : sum - factors[f].order;
        continue;
      }
      constexpr std::uint32_t kMask = (1u << kBitsPerPoint) - 1;
      for (std::uint32_t point = 0; point < factors[f].num_points; ++point) {
        const std::uint32_t shift = kBitsPerPoint * point;
        const std::uint32_t through = a.words[f] >> shift & kMask;
        product.words[f] |= (b.words[f] >> (kBitsPerPoint * through) & kMask) << shift;
      }
    }
    return product;
  }
};

// A group with the tables that its methods read.
struct GroupTables {
  Group group;
  std::vector<std::uint32_t> tables;
};

// "S5", "A4xZ5", ... Throws ConfigError at `where` for anything else.
GroupTables ParseGroup(std::string_view name, const std::string& where);

}  // namespace mixerbench::tasks::group_word
