// SPDX-License-Identifier: Apache-2.0
#include "reports/statistics/error_range.h"

#include <algorithm>
#include <boost/math/distributions/binomial.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "base/check.h"
#include "reports/statistics/statistics.h"

namespace mixerbench::reports {
namespace {

// Below this a variance is the rounding of equal values.
constexpr double kNoVariance = 1e-24;

double Variance(std::span<const double> values) {
  const double sd = StandardDeviation(values);
  return sd * sd;
}

}  // namespace

ErrorRange SummariseRuns(std::span<const double> scores, std::int64_t num_samples) {
  Require(scores.size() >= 2 && num_samples >= 2, "a spread needs two runs of two samples");
  ErrorRange range{.num_runs = std::ssize(scores),
                   .mean = Mean(scores),
                   .sd = StandardDeviation(scores),
                   .min = *std::min_element(scores.begin(), scores.end()),
                   .max = *std::max_element(scores.begin(), scores.end())};
  for (const double p : scores) {
    range.within_variance +=
        p * (1 - p) / static_cast<double>(num_samples - 1) / static_cast<double>(scores.size());
  }
  range.between_variance = std::max(0.0, range.sd * range.sd - range.within_variance);
  return range;
}

std::optional<VarianceRatio> CompareVariances(std::span<const double> a, std::span<const double> b,
                                              double level, int num_resamples, std::uint64_t seed) {
  Require(a.size() == b.size() && a.size() >= 2, "variances of pairs of runs need two pairs");
  if (Variance(b) <= kNoVariance) return std::nullopt;
  std::vector<double> ratios;
  std::vector<double> resampled_a(a.size());
  std::vector<double> resampled_b(b.size());
  std::uint64_t counter = 0;
  for (int resample = 0; resample < num_resamples; ++resample) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      const std::size_t run = BootstrapIndex(seed, counter++, a.size());
      resampled_a[i] = a[run];
      resampled_b[i] = b[run];
    }
    const double variance_b = Variance(resampled_b);
    ratios.push_back(variance_b > kNoVariance ? Variance(resampled_a) / variance_b
                                              : std::numeric_limits<double>::infinity());
  }
  VarianceRatio result{.ratio = Variance(a) / Variance(b)};
  std::sort(ratios.begin(), ratios.end());
  const auto num_finite =
      std::lower_bound(ratios.begin(), ratios.end(), std::numeric_limits<double>::infinity()) -
      ratios.begin();
  const double high_rank = (0.5 + level / 2) * static_cast<double>(ratios.size() - 1);
  if (std::ceil(high_rank) < static_cast<double>(num_finite)) {
    result.interval = Interval{.method = "percentile",
                               .level = level,
                               .low = Percentile(ratios, 0.5 - level / 2),
                               .high = Percentile(ratios, 0.5 + level / 2)};
  }
  return result;
}

double McNemarExact(std::int64_t only_a, std::int64_t only_b) {
  Require(only_a >= 0 && only_b >= 0, "counts are not negative");
  const std::int64_t total = only_a + only_b;
  if (total == 0) return 1;
  const boost::math::binomial fair(static_cast<double>(total), 0.5);
  const double tail = boost::math::cdf(fair, static_cast<double>(std::min(only_a, only_b)));
  return std::min(1.0, 2 * tail);
}

}  // namespace mixerbench::reports
