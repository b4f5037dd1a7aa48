// SPDX-License-Identifier: Apache-2.0
#include "gate/statistics/paired_mean.h"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>

#include "base/check.h"
#include "reports/statistics/statistics.h"

namespace mixerbench::gate {
namespace {

using boost::math::complement;
using boost::math::students_t;

constexpr double kVisiblePower = 0.8;

}  // namespace

PairedMean::PairedMean(std::span<const double> differences, double least_deviation)
    : size_(static_cast<std::int64_t>(differences.size())) {
  Require(size_ >= 2, "a paired mean needs two pairs or more");
  mean_ = reports::Mean(differences);
  error_ = reports::StandardDeviation(differences) / std::sqrt(static_cast<double>(size_));
  const auto [low, high] = std::minmax_element(differences.begin(), differences.end());
  if (*low == *high) {  // not what rounding makes of it
    mean_ = *low;
    error_ = 0;
  }
  error_ = std::max(error_, least_deviation / std::sqrt(static_cast<double>(size_)));
}

double PairedMean::Quantile(double probability) const {
  return boost::math::quantile(students_t(static_cast<double>(size_ - 1)), probability);
}

double PairedMean::PAbove(double bound) const {
  if (error_ == 0) return mean_ > bound ? 0 : 1;
  const students_t distribution(static_cast<double>(size_ - 1));
  return boost::math::cdf(complement(distribution, (mean_ - bound) / error_));
}

double PairedMean::PBelow(double bound) const {
  if (error_ == 0) return mean_ < bound ? 0 : 1;
  const students_t distribution(static_cast<double>(size_ - 1));
  return boost::math::cdf(distribution, (mean_ - bound) / error_);
}

double PairedMean::UpperBound(double level) const { return mean_ - Quantile(level) * error_; }
double PairedMean::LowerBound(double level) const { return mean_ + Quantile(level) * error_; }

reports::Interval PairedMean::Interval(double level) const {
  const double half = Quantile(0.5 + level / 2) * error_;
  return {.method = "t", .level = level, .low = mean_ - half, .high = mean_ + half};
}

double PairedMean::Visible(double margin, double level) const {
  return std::max(margin, -Quantile(level) * error_) + Quantile(kVisiblePower) * error_;
}

}  // namespace mixerbench::gate
