// SPDX-License-Identifier: Apache-2.0
#include "tests/accuracy/comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "reports/statistics/statistics.h"

namespace mixerbench::accuracy {
namespace {

// docs/NUMERICS.md has the reasons.
constexpr double kNaiveFactor = 2;
constexpr double kSumRounding = 2e-5;        // of sums of some thousand fp32 terms
constexpr double kCancelledRounding = 1e-6;  // of differences of terms as large as the largest
constexpr double kFalseAlarms = 1e-7;

}  // namespace

std::string_view NameOf(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
      return "fp32";
    case Precision::kTf32:
      return "tf32";
    case Precision::kBf16:
      return "bf16";
  }
  Require(false, "unknown precision");
  return {};
}

double RoundingFloor(const Comparison& comparison) {
  return kSumRounding * comparison.norm + kCancelledRounding * comparison.largest;
}

double ChanceFactor(double num_elements) {
  return reports::ErrorRatioQuantile(static_cast<std::int64_t>(num_elements), kFalseAlarms);
}

double Tolerance(const Comparison& comparison) {
  return kNaiveFactor * ChanceFactor(comparison.naive_participants) * comparison.naive_error +
         RoundingFloor(comparison);
}

double Ratio(const Comparison& comparison) {
  if (!std::isfinite(comparison.error)) return std::numeric_limits<double>::infinity();
  return comparison.error > 0 ? comparison.error / Tolerance(comparison) : 0;
}

Accuracy Failure(Precision precision, const std::string& reason, bool skipped) {
  return {.precision = precision, .failure = reason, .skipped = skipped};
}

}  // namespace mixerbench::accuracy
