// Intervals and summaries of the reports. Every one depends on its arguments alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "reports/result/result.h"

namespace mixerbench::reports {

// Wilson's score interval of k successes among n trials:
//   (k + z^2/2 ± z sqrt(k (n-k) / n + z^2/4)) / (n + z^2).
// Needs 0 <= k <= n, n > 0.
Interval Wilson(std::int64_t k, std::int64_t n, double level = 0.95);

// What one independent unit scored, 0 <= value <= size: the right answers among the scored
// positions of a sample, or the accuracy of a seed (size 1).
struct Score {
  double value = 0;
  double size = 1;
};

// Interval of sum value_i / sum size_i over independent units, whatever the distribution of their
// scores: outcomes may be bimodal, and the positions of a sample may depend on each other. Each
// bound is a quantile of a beta distribution with the mean and the variance of the ratio when the
// units, with one more of the largest size that scores worst (best for the upper bound), have
// exponential weights. Where every unit scores all or nothing it is Clopper and Pearson's exact
// interval. Derivation and coverage: docs/STATISTICS.md. No value for no units, or empty ones.
std::optional<Interval> ShareInterval(std::span<const Score> units, double level = 0.95);

// Bias-corrected and accelerated bootstrap of the mean (Efron 1987), `num_resamples` resamples
// drawn from a counter-based generator keyed by `seed` alone. No value for fewer than two.
std::optional<Interval> BootstrapBca(std::span<const double> values, double level = 0.95,
                                     int num_resamples = 10'000, std::uint64_t seed = 0);

// Draw number `draw` of a bootstrap: an index in 0..n-1, from a counter-based generator.
std::size_t BootstrapIndex(std::uint64_t seed, std::uint64_t draw, std::size_t n);

// By how much the root mean square of n errors may exceed that of n others of the same distribution
// with this probability: the root of a quantile of the F distribution with n and n degrees of
// freedom. At 0.001: 32 for 2 errors, 1.5 for 64, 1.05 for 4096.
double ErrorRatioQuantile(std::int64_t n, double probability);

// Whether two numbers are one, computed twice: another compiler or mathematics library may differ
// in the last digits.
bool AlmostEqual(double a, double b);

double Mean(std::span<const double> values);
// Sample standard deviation (n - 1). 0 for one value.
double StandardDeviation(std::span<const double> values);
double Median(std::span<const double> values);
// Linear interpolation between order statistics at position share * (n-1) (R's type 7).
// Values may be +infinity: one between a number and infinity is infinite.
double Percentile(std::span<const double> values, double share);

}  // namespace mixerbench::reports
