// The mean of paired differences by Student's t.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "reports/result/result.h"

namespace mixerbench::gate {

class PairedMean {
 public:
  // Needs two values or more. `least_deviation` is what their deviation is at least, where they are
  // rounded; without it the mean of equal values is taken as exact.
  explicit PairedMean(std::span<const double> differences, double least_deviation = 0);

  double mean() const { return mean_; }
  std::int64_t size() const { return size_; }

  // One-sided p value that the mean is above `bound`, or below it.
  double PAbove(double bound) const;
  double PBelow(double bound) const;

  // One-sided bounds: with this probability of error the mean is not above the one, below the
  // other.
  double UpperBound(double level) const;
  double LowerBound(double level) const;

  // Two-sided.
  reports::Interval Interval(double level = 0.95) const;

  // The true mean that 8 in 10 such samples would call above 0 at `level` with a mean above
  // `margin`: the larger of the two thresholds and the quantile 0.8 of the error of the mean.
  double Visible(double margin, double level) const;

 private:
  double Quantile(double probability) const;  // Student's, n - 1 degrees of freedom

  std::int64_t size_;
  double mean_;
  double error_;  // standard error of the mean
};

}  // namespace mixerbench::gate
