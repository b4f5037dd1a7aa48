// SPDX-License-Identifier: Apache-2.0
#include "reports/statistics/statistics.h"

#include <algorithm>
#include <boost/math/distributions/beta.hpp>
#include <boost/math/distributions/fisher_f.hpp>
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/check.h"

namespace mixerbench::reports {
namespace {

double NormalQuantile(double share) { return boost::math::quantile(boost::math::normal(), share); }

double NormalCdf(double z) { return boost::math::cdf(boost::math::normal(), z); }

struct Totals {
  double value = 0;
  double size = 0;
  double largest = 0;  // size of one unit
};

Totals TotalsOf(std::span<const Score> units) {
  Totals totals;
  for (const Score& unit : units) {
    totals.value += unit.value;
    totals.size += unit.size;
    totals.largest = std::max(totals.largest, unit.size);
  }
  return totals;
}

// The quantile `tail` of the share when the units and one that scores nothing have weights w_i,
// exponential variables. With S the sum of all sizes, the share has the mean p = sum value_i / S
// and, linearised, the variance sum (value_i - p size_i)^2 / S^2 (n+1) / (n+2), exact for equal
// sizes: then the weights divided by their sum have Dirichlet's distribution.
double LowerBound(std::span<const Score> units, double tail) {
  constexpr double kNothing = 1e-100;  // squares of less are no numbers
  const Totals totals = TotalsOf(units);
  if (totals.value <= kNothing * totals.size) return 0;
  const double size = totals.size + totals.largest;
  const double p = totals.value / size;
  double squares = p * p * totals.largest * totals.largest;
  for (const Score& unit : units) {
    squares += (unit.value - p * unit.size) * (unit.value - p * unit.size);
  }
  const auto n = static_cast<double>(units.size());
  const double variance = squares / (size * size) * (n + 1) / (n + 2);
  const double weight = p * (1 - p) / variance - 1;  // of all units; a + b of the beta distribution
  return boost::math::quantile(boost::math::beta_distribution(p * weight, (1 - p) * weight), tail);
}

// SplitMix64 as a counter-based generator: word i of stream `seed` (Steele et al., 2014).
std::uint64_t CounterWord(std::uint64_t seed, std::uint64_t i) {
  std::uint64_t z = seed + (i + 1) * 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

double SortedPercentile(std::span<const double> sorted, double share) {
  const double position = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(position));
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  const double weight = position - static_cast<double>(below);
  // Values may be infinite: 0 * infinity and infinity - infinity are no numbers.
  if (weight == 0 || sorted[below] == sorted[above]) return sorted[below];
  return sorted[below] + weight * (sorted[above] - sorted[below]);
}

std::vector<double> BootstrapMeans(std::span<const double> values, int num_resamples,
                                   std::uint64_t seed) {
  std::vector<double> means;
  means.reserve(static_cast<std::size_t>(num_resamples));
  std::uint64_t counter = 0;
  for (int r = 0; r < num_resamples; ++r) {
    double sum = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      sum += values[BootstrapIndex(seed, counter++, values.size())];
    }
    means.push_back(sum / static_cast<double>(values.size()));
  }
  std::sort(means.begin(), means.end());
  return means;
}

// Skewness of the jackknife, divided by 6. For the mean, leaving out x_i moves the estimate by
// (x_i - mean) / (n - 1), so the jackknife needs no loop of its own.
double Acceleration(std::span<const double> values, double mean) {
  double squares = 0;
  double cubes = 0;
  for (const double v : values) {
    squares += (v - mean) * (v - mean);
    cubes += (v - mean) * (v - mean) * (v - mean);
  }
  return cubes / (6 * std::pow(squares, 1.5));
}

}  // namespace

Interval Wilson(std::int64_t k, std::int64_t n, double level) {
  Require(n > 0 && k >= 0 && k <= n, "Wilson needs 0 <= k <= n and n > 0");
  const double z = NormalQuantile(0.5 + level / 2);
  const double z2 = z * z;
  const auto trials = static_cast<double>(n);
  const double share = static_cast<double>(k) / trials;
  const double centre = (static_cast<double>(k) + z2 / 2) / (trials + z2);
  const double half = z * std::sqrt(trials * share * (1 - share) + z2 / 4) / (trials + z2);
  // Rounding must not push the bound of a full or an empty house past it.
  return {.method = "wilson",
          .level = level,
          .low = k == 0 ? 0 : std::max(0.0, centre - half),
          .high = k == n ? 1 : std::min(1.0, centre + half)};
}

std::optional<Interval> ShareInterval(std::span<const Score> units, double level) {
  if (TotalsOf(units).size <= 0) return std::nullopt;
  std::vector<Score> misses;
  for (const Score& unit : units) {
    Require(unit.value >= 0 && unit.value <= unit.size, "a score lies between 0 and its size");
    misses.push_back({unit.size - unit.value, unit.size});
  }
  const double tail = 0.5 - level / 2;
  return Interval{.method = "beta",
                  .level = level,
                  .low = LowerBound(units, tail),
                  .high = 1 - LowerBound(misses, tail)};
}

std::optional<Interval> BootstrapBca(std::span<const double> values, double level,
                                     int num_resamples, std::uint64_t seed) {
  if (values.size() < 2) return std::nullopt;
  const double mean = Mean(values);
  const auto [smallest, largest] = std::minmax_element(values.begin(), values.end());
  if (*smallest == *largest) {
    return Interval{.method = "bca", .level = level, .low = *smallest, .high = *largest};
  }
  const std::vector<double> means = BootstrapMeans(values, num_resamples, seed);
  // Ties with the estimate count half, so that a symmetric sample has no bias correction. The same
  // values summed in another order differ by rounding only.
  const double rounding = 1e-12 * (*largest - *smallest);
  const auto below = std::lower_bound(means.begin(), means.end(), mean - rounding);
  const auto above = std::upper_bound(means.begin(), means.end(), mean + rounding);
  const double rank =
      (static_cast<double>(below - means.begin()) + static_cast<double>(above - means.begin())) / 2;
  const double share = std::clamp(rank, 0.5, static_cast<double>(num_resamples) - 0.5) /
                       static_cast<double>(num_resamples);
  const double z0 = NormalQuantile(share);
  const double a = Acceleration(values, mean);
  const auto bound = [&](double tail) {
    const double z = z0 + NormalQuantile(tail);
    return SortedPercentile(means, NormalCdf(z0 + z / (1 - a * z)));
  };
  return Interval{.method = "bca",
                  .level = level,
                  .low = bound(0.5 - level / 2),
                  .high = bound(0.5 + level / 2)};
}

std::size_t BootstrapIndex(std::uint64_t seed, std::uint64_t draw, std::size_t n) {
  // The high half of a 32 x 32 bit product: its bias is below n / 2^32.
  return static_cast<std::size_t>(((CounterWord(seed, draw) >> 32) * n) >> 32);
}

double ErrorRatioQuantile(std::int64_t n, double probability) {
  constexpr std::int64_t kMost = 1'000'000;  // the quantile of more is 1.00
  const auto degrees = static_cast<double>(std::clamp<std::int64_t>(n, 1, kMost));
  const boost::math::fisher_f ratio_of_squares(degrees, degrees);
  return std::sqrt(boost::math::quantile(boost::math::complement(ratio_of_squares, probability)));
}

double Mean(std::span<const double> values) {
  Require(!values.empty(), "the mean of nothing");
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double StandardDeviation(std::span<const double> values) {
  if (values.size() < 2) return 0;
  const double mean = Mean(values);
  double squares = 0;
  for (const double v : values) squares += (v - mean) * (v - mean);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

bool AlmostEqual(double a, double b) {
  return std::abs(a - b) <= 1e-9 * std::max({1.0, std::abs(a), std::abs(b)});
}

double Median(std::span<const double> values) { return Percentile(values, 0.5); }

double Percentile(std::span<const double> values, double share) {
  Require(!values.empty() && share >= 0 && share <= 1, "a percentile needs values and a share");
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  return SortedPercentile(sorted, share);
}

}  // namespace mixerbench::reports
