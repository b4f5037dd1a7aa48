// SPDX-License-Identifier: Apache-2.0
#include "gate/statistics/median_bootstrap.h"

#include <algorithm>
#include <boost/math/distributions/binomial.hpp>
#include <boost/math/special_functions/binomial.hpp>
#include <cmath>

#include "base/check.h"
#include "reports/statistics/statistics.h"

namespace mixerbench::gate {
namespace {

// P(the k-th smallest of n draws is among the first `below` of n values).
double OrderStatistic(std::size_t n, std::size_t k, std::size_t below) {
  if (below == 0) return 0;
  if (below == n) return 1;
  const double share = static_cast<double>(below) / static_cast<double>(n);
  const boost::math::binomial among(static_cast<double>(n), share);
  return boost::math::cdf(boost::math::complement(among, static_cast<double>(k) - 1));
}

// P(at least one of m draws is value number i, all are at most it) for i = 0..n-1; with the same
// numbers P(one is number n-1-i, all are at least it).
std::vector<double> Extremes(std::size_t n, std::size_t m) {
  std::vector<double> shares;
  const auto power = [&](std::size_t i) {
    return std::pow(static_cast<double>(i) / static_cast<double>(n), static_cast<double>(m));
  };
  for (std::size_t i = 0; i < n; ++i) shares.push_back(power(i + 1) - power(i));
  return shares;
}

}  // namespace

MedianBootstrap::MedianBootstrap(std::span<const double> values) {
  Require(!values.empty(), "the bootstrap of nothing");
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  median_ = reports::Median(sorted);
  const std::size_t n = sorted.size();
  const std::size_t half = n / 2;
  const std::size_t lower = n % 2 == 1 ? half + 1 : half;  // which order statistic, from 1
  std::vector<double> one(n);                              // P(it is value number i)
  for (std::size_t i = 0; i < n; ++i) {
    one[i] = OrderStatistic(n, lower, i + 1) - OrderStatistic(n, lower, i);
  }
  if (n % 2 == 0) {
    // The two middle draws are i < j when half of the draws end at i and the others begin at j.
    const std::vector<double> extremes = Extremes(n, half);
    const double ways = boost::math::binomial_coefficient<double>(static_cast<unsigned>(n),
                                                                  static_cast<unsigned>(half));
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = i + 1; j < n; ++j) {
        const double both = ways * extremes[i] * extremes[n - 1 - j];
        atoms_.push_back({(sorted[i] + sorted[j]) / 2, both});
        one[i] -= both;
      }
    }
  }
  for (std::size_t i = 0; i < n; ++i) atoms_.push_back({sorted[i], one[i]});
  std::stable_sort(atoms_.begin(), atoms_.end(),
                   [](const Atom& a, const Atom& b) { return a.value < b.value; });
}

double MedianBootstrap::Cdf(double value) const {
  double sum = 0;
  for (const Atom& atom : atoms_) {
    if (atom.value > value) break;
    sum += atom.probability;
  }
  return std::clamp(sum, 0.0, 1.0);
}

double MedianBootstrap::Quantile(double share) const {
  constexpr double kRounding = 1e-12;
  double sum = 0;
  for (const Atom& atom : atoms_) {
    sum += atom.probability;
    if (sum >= share - kRounding) return atom.value;
  }
  return atoms_.back().value;
}

}  // namespace mixerbench::gate
