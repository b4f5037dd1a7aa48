// SPDX-License-Identifier: Apache-2.0
#include "gate/statistics/exact_tests.h"

#include <algorithm>
#include <bit>
#include <boost/math/distributions/hypergeometric.hpp>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace mixerbench::gate {
namespace {

using boost::math::hypergeometric_distribution;

void CheckCount(SolvedCount count) {
  Require(count.solved >= 0 && count.solved <= count.seeds && count.seeds > 0,
          "a count of solved seeds lies in 0..seeds");
}

// Solved seeds of the candidate when all solved ones are dealt out at random.
struct Deal {
  hypergeometric_distribution<double> solved_in_candidate;
  std::int64_t fewest, most;
};

Deal DealOf(SolvedCount base, SolvedCount candidate) {
  CheckCount(base);
  CheckCount(candidate);
  const std::int64_t solved = base.solved + candidate.solved;
  return {hypergeometric_distribution<double>(static_cast<unsigned>(solved),
                                              static_cast<unsigned>(candidate.seeds),
                                              static_cast<unsigned>(base.seeds + candidate.seeds)),
          std::max<std::int64_t>(0, solved - base.seeds), std::min(candidate.seeds, solved)};
}

double AtMost(const Deal& deal, std::int64_t solved) {
  return solved >= deal.most
             ? 1.0
             : boost::math::cdf(deal.solved_in_candidate, static_cast<unsigned>(solved));
}

// Twice the mean rank of each loss by its size, so that ranks are whole numbers.
std::vector<std::int64_t> DoubledRanks(std::span<const PairedLoss> losses) {
  std::vector<std::size_t> order(losses.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto less = [&](std::size_t a, std::size_t b) {
    if (losses[a].is_censored || losses[b].is_censored) {
      return !losses[a].is_censored && losses[b].is_censored;
    }
    return std::abs(losses[a].value) < std::abs(losses[b].value);
  };
  std::stable_sort(order.begin(), order.end(), less);
  std::vector<std::int64_t> ranks(losses.size());
  for (std::size_t first = 0, last = 0; first < order.size(); first = last) {
    while (last < order.size() && !less(order[first], order[last])) ++last;
    // The ranks first + 1 .. last share their mean, (first + 1 + last) / 2.
    for (std::size_t i = first; i < last; ++i) {
      ranks[order[i]] = static_cast<std::int64_t>(first + 1 + last);
    }
  }
  return ranks;
}

}  // namespace

double FisherLoss(SolvedCount base, SolvedCount candidate) {
  return AtMost(DealOf(base, candidate), candidate.solved);
}

std::vector<double> FisherAttainable(SolvedCount base, SolvedCount candidate) {
  const Deal deal = DealOf(base, candidate);
  std::vector<double> attainable;
  for (std::int64_t solved = deal.fewest; solved <= deal.most; ++solved) {
    attainable.push_back(AtMost(deal, solved));
  }
  return attainable;
}

std::optional<std::int64_t> VisibleSolved(SolvedCount base, std::int64_t seeds, double level,
                                          std::span<const Tested> others) {
  std::vector<Tested> family(1);
  for (const Tested& other : others) family.push_back({1, other.attainable});
  for (std::int64_t solved = seeds; solved >= 0; --solved) {
    const SolvedCount candidate{solved, seeds};
    family.front() = {FisherLoss(base, candidate), FisherAttainable(base, candidate)};
    if (HolmAdjusted(family).front() <= level) return solved;
  }
  return std::nullopt;
}

double SignedRank(std::span<const PairedLoss> losses) {
  std::vector<PairedLoss> signed_losses;
  for (const PairedLoss& loss : losses) {
    if (loss.value != 0) signed_losses.push_back(loss);
  }
  if (signed_losses.empty()) return 1;
  const std::vector<std::int64_t> ranks = DoubledRanks(signed_losses);
  std::int64_t positive = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (signed_losses[i].value > 0) positive += ranks[i];
  }
  // P(sum of the ranks with a plus) when every sign is a coin.
  std::vector<double> probability(
      static_cast<std::size_t>(std::accumulate(ranks.begin(), ranks.end(), std::int64_t{0})) + 1);
  probability[0] = 1;
  for (const std::int64_t rank : ranks) {
    const auto step = static_cast<std::size_t>(rank);
    for (std::size_t sum = probability.size(); sum-- > 0;) {
      probability[sum] = (probability[sum] + (sum >= step ? probability[sum - step] : 0)) / 2;
    }
  }
  return std::accumulate(probability.begin() + positive, probability.end(), 0.0);
}

std::optional<double> SignFlip(std::span<const double> losses) {
  if (losses.size() > kMostSignFlips) return std::nullopt;
  const double seen = std::accumulate(losses.begin(), losses.end(), 0.0);
  double scale = 0;
  for (const double loss : losses) scale += std::abs(loss);
  // Sums in another order differ by rounding only.
  const double rounding = 1e-12 * scale;
  std::vector<double> flipped(losses.begin(), losses.end());
  const std::uint64_t num_flips = std::uint64_t{1} << losses.size();
  double sum = seen;
  std::uint64_t at_least = 1;  // nothing flipped
  // Each Gray code differs from the one before by one exchange.
  for (std::uint64_t code = 1; code < num_flips; ++code) {
    double& loss = flipped[static_cast<std::size_t>(std::countr_zero(code))];
    loss = -loss;
    sum += 2 * loss;
    if (sum >= seen - rounding) ++at_least;
  }
  return static_cast<double>(at_least) / static_cast<double>(num_flips);
}

double CliffsDelta(std::span<const double> base, std::span<const double> candidate) {
  Require(!base.empty() && !candidate.empty(), "Cliff's delta needs two samples");
  std::int64_t balance = 0;
  for (const double b : base) {
    for (const double c : candidate) balance += (c > b) - (c < b);
  }
  return static_cast<double>(balance) / static_cast<double>(base.size() * candidate.size());
}

}  // namespace mixerbench::gate
