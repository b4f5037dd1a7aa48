// SPDX-License-Identifier: Apache-2.0
#include "reports/statistics.h"

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/check.h"

namespace mixerbench::reports {
namespace {

double NormalQuantile(double share) { return boost::math::quantile(boost::math::normal(), share); }

double NormalCdf(double z) { return boost::math::cdf(boost::math::normal(), z); }

double StudentQuantile(double share, std::size_t num_values) {
  return boost::math::quantile(boost::math::students_t(static_cast<double>(num_values - 1)), share);
}

// Wilson for a share that need not be a whole number of successes.
Interval WilsonShare(double share, double n, double level) {
  const double z = NormalQuantile(0.5 + level / 2);
  const double z2 = z * z;
  const double centre = (share * n + z2 / 2) / (n + z2);
  const double half = z * std::sqrt(n * share * (1 - share) + z2 / 4) / (n + z2);
  // Rounding must not push the bound of a full or an empty house past it.
  return {.method = "wilson",
          .level = level,
          .low = share == 0 ? 0 : std::max(0.0, centre - half),
          .high = share == 1 ? 1 : std::min(1.0, centre + half)};
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
  return WilsonShare(static_cast<double>(k) / static_cast<double>(n), static_cast<double>(n),
                     level);
}

std::optional<Interval> ClusterRobust(std::span<const ClusterCount> samples, double level) {
  std::int64_t num_correct = 0;
  std::int64_t num_scored = 0;
  for (const ClusterCount& sample : samples) {
    num_correct += sample.num_correct;
    num_scored += sample.num_scored;
  }
  if (num_scored == 0) return std::nullopt;
  const double p = static_cast<double>(num_correct) / static_cast<double>(num_scored);
  const auto n = static_cast<double>(samples.size());
  double squares = 0;
  for (const ClusterCount& sample : samples) {
    const double residual =
        static_cast<double>(sample.num_correct) - p * static_cast<double>(sample.num_scored);
    squares += residual * residual;
  }
  // Residuals that are rounding errors only.
  const double mean_size = static_cast<double>(num_scored) / n;
  if (samples.size() < 2 || squares <= 1e-18 * n * mean_size * mean_size) {
    return WilsonShare(p, n, level);
  }
  const double half = StudentQuantile(0.5 + level / 2, samples.size()) *
                      std::sqrt(n / (n - 1) * squares) / static_cast<double>(num_scored);
  return Interval{.method = "cluster-robust",
                  .level = level,
                  .low = std::max(0.0, p - half),
                  .high = std::min(1.0, p + half)};
}

std::optional<Interval> StudentT(std::span<const double> values, double level) {
  if (values.size() < 2) return std::nullopt;
  const double mean = Mean(values);
  const double half = StudentQuantile(0.5 + level / 2, values.size()) * StandardDeviation(values) /
                      std::sqrt(static_cast<double>(values.size()));
  return Interval{.method = "t", .level = level, .low = mean - half, .high = mean + half};
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

double Median(std::span<const double> values) { return Percentile(values, 0.5); }

double Percentile(std::span<const double> values, double share) {
  Require(!values.empty() && share >= 0 && share <= 1, "a percentile needs values and a share");
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  return SortedPercentile(sorted, share);
}

}  // namespace mixerbench::reports
