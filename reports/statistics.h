// Intervals and summaries of the reports. Every one depends on its arguments alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "reports/result.h"

namespace mixerbench::reports {

// Wilson's score interval of k successes among n trials:
//   (k + z^2/2 ± z sqrt(k (n-k) / n + z^2/4)) / (n + z^2).
// Needs 0 <= k <= n, n > 0.
Interval Wilson(std::int64_t k, std::int64_t n, double level = 0.95);

// Scores of one sample: its positions are not independent of each other.
struct ClusterCount {
  std::int64_t num_correct = 0;
  std::int64_t num_scored = 0;
};

// Interval of p = sum c_i / sum m_i over samples i, by the linearised (cluster-robust) variance
//   n / (n-1) * sum (c_i - p m_i)^2 / (sum m_i)^2
// with Student's t of n-1 degrees of freedom, cut to [0, 1]. Where the residuals vanish (p is 0 or
// 1, or every sample scores the same) that variance is blind: then Wilson over the n samples,
// around p. No value for an empty list, or when nothing is scored.
std::optional<Interval> ClusterRobust(std::span<const ClusterCount> samples, double level = 0.95);

// mean ± t_{n-1} s / sqrt(n). No value for fewer than two.
std::optional<Interval> StudentT(std::span<const double> values, double level = 0.95);

// Bias-corrected and accelerated bootstrap of the mean (Efron 1987), `num_resamples` resamples
// drawn from a counter-based generator keyed by `seed` alone. No value for fewer than two.
std::optional<Interval> BootstrapBca(std::span<const double> values, double level = 0.95,
                                     int num_resamples = 10'000, std::uint64_t seed = 0);

// Draw number `draw` of a bootstrap: an index in 0..n-1, from a counter-based generator.
std::size_t BootstrapIndex(std::uint64_t seed, std::uint64_t draw, std::size_t n);

double Mean(std::span<const double> values);
// Sample standard deviation (n - 1). 0 for one value.
double StandardDeviation(std::span<const double> values);
double Median(std::span<const double> values);
// Linear interpolation between order statistics at position share * (n-1) (R's type 7).
double Percentile(std::span<const double> values, double share);

}  // namespace mixerbench::reports
