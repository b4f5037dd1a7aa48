// SPDX-License-Identifier: Apache-2.0
#include "reports/statistics/error_range.h"

#include <cmath>
#include <stdexcept>
#include <vector>

#include "reports/statistics/statistics.h"

#include "tests/support/catch2.h"

namespace mixerbench::reports {
namespace {

// Closed forms in double precision.
constexpr double kExact = 1e-12;

TEST_CASE("error range: by hand") {
  const std::vector<double> scores = {0.5, 0.6, 0.7};
  const ErrorRange range = SummariseRuns(scores, 101);
  CHECK(range.num_runs == 3);
  CHECK(std::abs(range.mean - 0.6) < kExact);
  CHECK(std::abs(range.sd - 0.1) < kExact);
  CHECK(range.min == 0.5);
  CHECK(range.max == 0.7);
  CHECK(std::abs(range.within_variance - (0.25 + 0.24 + 0.21) / 3 / 100) < kExact);
  CHECK(std::abs(range.between_variance - (0.01 - range.within_variance)) < kExact);
  CHECK_THROWS_AS(SummariseRuns(std::vector<double>{0.5}, 100), std::logic_error);
}

TEST_CASE("error range: sampling noise leaves nothing between runs") {
  // 0.6 with 500 samples: the noise has a standard deviation of 2.2 points.
  const std::vector<double> scores = {0.59, 0.60, 0.61, 0.60};
  const ErrorRange range = SummariseRuns(scores, 500);
  CHECK(std::abs(std::sqrt(range.within_variance) - 0.0219) < 5e-5);
  CHECK(range.between_variance == 0);
}

TEST_CASE("variance ratio: scale, pairing and repeatability") {
  std::vector<double> a, b;
  for (std::uint64_t r = 0; r < 20; ++r) {
    b.push_back(0.5 + 0.001 * static_cast<double>(BootstrapIndex(1, r, 40)));
    a.push_back(3 * b.back());
  }
  const auto ratio = CompareVariances(a, b);
  REQUIRE(ratio.has_value());
  REQUIRE(ratio->interval.has_value());
  // Every resample of pairs keeps the factor.
  CHECK(std::abs(ratio->ratio - 9) < 1e-9);
  CHECK(std::abs(ratio->interval->low - 9) < 1e-9);
  CHECK(std::abs(ratio->interval->high - 9) < 1e-9);

  std::vector<double> unrelated;
  for (std::uint64_t r = 0; r < 20; ++r) {
    unrelated.push_back(0.001 * static_cast<double>(BootstrapIndex(2, r, 80)));
  }
  const auto wide = CompareVariances(unrelated, b);
  REQUIRE(wide.has_value());
  REQUIRE(wide->interval.has_value());
  CHECK(wide->interval->low < wide->ratio);
  CHECK(wide->interval->high > wide->ratio);
  CHECK(CompareVariances(unrelated, b)->interval->low == wide->interval->low);
}

TEST_CASE("variance ratio: nothing to divide by") {
  const std::vector<double> a = {0.1, 0.2, 0.3};
  CHECK_FALSE(CompareVariances(a, std::vector<double>{0.4, 0.4, 0.4}).has_value());
  // One run in three differs: (2/3)^3 of the resamples of b do not vary.
  const auto ratio = CompareVariances(a, std::vector<double>{0.4, 0.4, 0.5});
  REQUIRE(ratio.has_value());
  CHECK_FALSE(ratio->interval.has_value());
}

TEST_CASE("McNemar: exact probabilities") {
  CHECK(McNemarExact(0, 0) == 1);
  CHECK(McNemarExact(3, 3) == 1);
  // 2 * 0.5^5.
  CHECK(std::abs(McNemarExact(0, 5) - 0.0625) < kExact);
  CHECK(McNemarExact(5, 0) == McNemarExact(0, 5));
  // 2 * (1 + 10 + 45) / 1024.
  CHECK(std::abs(McNemarExact(2, 8) - 112.0 / 1024) < kExact);
  CHECK_THROWS_AS(McNemarExact(-1, 2), std::logic_error);
}

}  // namespace
}  // namespace mixerbench::reports
