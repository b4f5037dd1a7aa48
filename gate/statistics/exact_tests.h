// Exact one-sided tests for the loss of a candidate against its base. Each p value is the
// probability, when nothing changed, of a loss at least as large as the one seen.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gate/statistics/multiple.h"

namespace mixerbench::gate {

struct SolvedCount {
  std::int64_t solved = 0;
  std::int64_t seeds = 0;
};

// Fisher's exact test: as few solved in `candidate` or fewer, given how many were solved together.
double FisherLoss(SolvedCount base, SolvedCount candidate);

// Every p value that FisherLoss can take with these numbers of seeds and of solved ones together,
// ascending. What a discrete test cannot reach costs a family of tests nothing (multiple.h).
std::vector<double> FisherAttainable(SolvedCount base, SolvedCount candidate);

// The most solved seeds out of `seeds` that would still be a loss at this level, beside `others`
// that show none; nothing when not even none would be.
std::optional<std::int64_t> VisibleSolved(SolvedCount base, std::int64_t seeds, double level,
                                          std::span<const Tested> others = {});

// The loss of one pair. A censored one is larger than any other, of the sign of `value`.
struct PairedLoss {
  double value = 0;
  bool is_censored = false;
};

// Wilcoxon's signed-rank test that losses are centred above 0. Zeros are dropped, ties share their
// mean rank, censored pairs share the last ranks; exact for any number of pairs. 1 without pairs.
double SignedRank(std::span<const PairedLoss> losses);

inline constexpr std::size_t kMostSignFlips = 20;  // pairs; 2^20 flips

// Sign-flip test that the mean loss is above 0: the share of all 2^n ways to exchange the two sides
// of pairs whose mean is at least the one seen. Nothing for more than kMostSignFlips pairs.
std::optional<double> SignFlip(std::span<const double> losses);

// Cliff's delta of two samples: P(candidate > base) - P(candidate < base), in [-1, 1].
double CliffsDelta(std::span<const double> base, std::span<const double> candidate);

}  // namespace mixerbench::gate
