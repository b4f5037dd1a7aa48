// How much a score moves from run to run: the statistics behind SILA's Fig 1b, and tests of paired
// runs. Every one depends on its arguments alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "reports/result/result.h"

namespace mixerbench::reports {

// Spread of the scores p_r of R runs with `num_samples` samples each.
struct ErrorRange {
  std::int64_t num_runs = 0;
  double mean = 0;
  double sd = 0;  // n - 1
  double min = 0;
  double max = 0;  // max - min is the error bar of the figure
  // Variance that sampling alone explains: mean of p_r (1 - p_r) / (N - 1).
  double within_variance = 0;
  // What is left: max(0, sd^2 - within_variance). More than noise: the runs differ.
  double between_variance = 0;
};

// Scores in 0..1. Needs two runs and num_samples >= 2.
ErrorRange SummariseRuns(std::span<const double> scores, std::int64_t num_samples);

// Var(a) / Var(b) of runs in pairs (run r of both has the same samples), with the percentile
// interval of `num_resamples` bootstrap resamples of the pairs. No value when b does not vary; no
// interval when so many resamples of b do not vary that a bound would be infinite.
struct VarianceRatio {
  double ratio = 0;
  std::optional<Interval> interval = std::nullopt;
};
std::optional<VarianceRatio> CompareVariances(std::span<const double> a, std::span<const double> b,
                                              double level = 0.95, int num_resamples = 2000,
                                              std::uint64_t seed = 0);

// McNemar's exact test: two-sided probability of a split at least as uneven as this among the
// samples that only one of two variants answers, when both are equally good. 1 when there are none.
double McNemarExact(std::int64_t only_a, std::int64_t only_b);

}  // namespace mixerbench::reports
