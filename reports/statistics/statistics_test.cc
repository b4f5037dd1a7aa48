// Expected values come from closed forms and published tables, named at each case.
// SPDX-License-Identifier: Apache-2.0
#include "reports/statistics/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "tests/support/catch2.h"

namespace mixerbench::reports {
namespace {

// Closed forms in double precision agree to a few ulps; tables are printed to 4 digits.
constexpr double kExact = 1e-12;
constexpr double kTable = 5e-5;

double BinomialProbability(std::int64_t k, std::int64_t n, double p) {
  return std::exp(std::lgamma(double(n) + 1) - std::lgamma(double(k) + 1) -
                  std::lgamma(double(n - k) + 1) + double(k) * std::log(p) +
                  double(n - k) * std::log1p(-p));
}

double BinomialAtLeast(std::int64_t k, std::int64_t n, double p) {
  double sum = 0;
  for (; k <= n; ++k) sum += BinomialProbability(k, n, p);
  return sum;
}

// Sum over k of the probability that the interval of k covers p.
double WilsonCoverage(std::int64_t n, double p) {
  double covered = 0;
  for (std::int64_t k = 0; k <= n; ++k) {
    const Interval ci = Wilson(k, n);
    if (ci.low <= p && ci.high >= p) covered += BinomialProbability(k, n, p);
  }
  return covered;
}

TEST_CASE("wilson: agrees with published values and closed forms") {
  // Newcombe 1998, table I, method 3: 81/263, 15/148, 0/20, 1/29.
  CHECK(std::abs(Wilson(81, 263).low - 0.2553) < kTable);
  CHECK(std::abs(Wilson(81, 263).high - 0.3662) < kTable);
  CHECK(std::abs(Wilson(15, 148).low - 0.0624) < kTable);
  CHECK(std::abs(Wilson(15, 148).high - 0.1605) < kTable);
  CHECK(Wilson(0, 20).low == 0);
  CHECK(std::abs(Wilson(0, 20).high - 0.1611) < kTable);
  CHECK(std::abs(Wilson(1, 29).low - 0.0061) < kTable);
  CHECK(std::abs(Wilson(1, 29).high - 0.1718) < kTable);
  // k = n: the lower bound is n / (n + z^2).
  const double z = 1.959963984540054;
  CHECK(std::abs(Wilson(10, 10).low - 10 / (10 + z * z)) < kExact);
  CHECK(Wilson(10, 10).high == 1);
}

TEST_CASE("wilson: is symmetric, nested in its level and covers") {
  for (std::int64_t n : {1, 2, 7, 50}) {
    for (std::int64_t k = 0; k <= n; ++k) {
      CAPTURE(n, k);
      const Interval ci = Wilson(k, n);
      const Interval mirrored = Wilson(n - k, n);
      CHECK(std::abs(ci.low - (1 - mirrored.high)) < kExact);
      CHECK(ci.low <= double(k) / double(n));
      CHECK(ci.high >= double(k) / double(n));
      CHECK(Wilson(k, n, 0.99).high >= ci.high);
    }
  }
  // Exact coverage of Wilson at n = 50 stays within 0.92..0.98 for these p (Brown et al. 2001).
  for (double p : {0.1, 0.3, 0.5, 0.9}) {
    CHECK(WilsonCoverage(50, p) > 0.92);
    CHECK(WilsonCoverage(50, p) < 0.98);
  }
}

TEST_CASE("summaries: known values") {
  const std::vector<double> v = {4, 1, 3, 2};
  CHECK(Mean(v) == 2.5);
  CHECK(Median(v) == 2.5);
  CHECK(std::abs(StandardDeviation(v) - std::sqrt(5.0 / 3)) < kExact);
  CHECK(Percentile(v, 0) == 1);
  CHECK(Percentile(v, 1) == 4);
  CHECK(std::abs(Percentile(v, 0.2) - 1.6) < kExact);  // R: quantile(1:4, 0.2) is 1.6
  CHECK(StandardDeviation(std::vector<double>{7}) == 0);
  CHECK(AlmostEqual(0.1 + 0.2, 0.3));
  CHECK(AlmostEqual(1e12, 1e12 + 1));
  CHECK_FALSE(AlmostEqual(0.3, 0.3 + 1e-8));
}

TEST_CASE("Order statistics may be infinite", "[reports][statistics]") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  CHECK(Median(std::vector<double>{kInfinity, 100, 200}) == 200);
  CHECK(Median(std::vector<double>{100, 200, 300, kInfinity}) == 250);
  CHECK(Median(std::vector<double>{100, kInfinity}) == kInfinity);
  CHECK(Median(std::vector<double>{100, kInfinity, kInfinity, kInfinity}) == kInfinity);
  CHECK(Percentile(std::vector<double>{100, 200, kInfinity}, 0) == 100);
}

std::vector<Score> Units(int num_right, int num_wrong, double size = 1) {
  std::vector<Score> units(static_cast<std::size_t>(num_right), {size, size});
  units.insert(units.end(), static_cast<std::size_t>(num_wrong), {0, size});
  return units;
}

TEST_CASE("share interval: all or nothing is Clopper and Pearson's interval") {
  for (const auto& [k, n] : {std::pair{8, 10}, {1, 29}, {50, 100}}) {
    CAPTURE(k, n);
    const Interval ci = *ShareInterval(Units(k, n - k));
    CHECK(std::abs(BinomialAtLeast(k, n, ci.low) - 0.025) < kExact);
    CHECK(std::abs(BinomialAtLeast(k + 1, n, ci.high) - 0.975) < kExact);
  }
  // k = n: the lower bound is tail^(1/n), the upper one 1.
  for (const int n : {1, 5, 100}) {
    const Interval ci = *ShareInterval(Units(n, 0));
    CHECK(ci.method == "beta");
    CHECK(std::abs(ci.low - std::pow(0.025, 1.0 / n)) < kExact);
    CHECK(ci.high == 1);
    CHECK(ShareInterval(Units(0, n))->low == 0);
    CHECK(ShareInterval(Units(n, 0), 0.99)->low < ci.low);
  }
}

TEST_CASE("share interval: copies of a position add no information, independent ones do") {
  const Interval once = *ShareInterval(Units(20, 10));
  const Interval copied = *ShareInterval(Units(20, 10, 16));
  CHECK(std::abs(once.low - copied.low) < kExact);
  CHECK(std::abs(once.high - copied.high) < kExact);
  const Interval halves = *ShareInterval(std::vector<Score>(30, {8, 12}));
  CHECK(halves.low > once.low);
  CHECK(halves.high < once.high);
}

TEST_CASE("share interval: holds its mean, mirrors, and expects more than was seen") {
  const std::vector<Score> uneven = {{3, 4}, {1, 1}, {0, 2}, {7, 8}, {0.25, 0.5}};
  std::vector<Score> mirrored;
  for (const Score& unit : uneven) mirrored.push_back({unit.size - unit.value, unit.size});
  const Interval ci = *ShareInterval(uneven);
  CHECK(ci.low < 11.25 / 15.5);
  CHECK(ci.high > 11.25 / 15.5);
  CHECK(std::abs(ci.low - (1 - ShareInterval(mirrored)->high)) < kExact);
  // Seeds at 99.98 % and one at 99.9 %: five of them do not exclude that one in three fails.
  const std::vector<Score> solved = {{0.9998}, {0.9998}, {0.9998}, {0.9998}, {0.999}};
  CHECK(ShareInterval(solved)->low < 0.6);
  CHECK(ShareInterval(solved)->high > 0.9998);
  CHECK_FALSE(ShareInterval({}).has_value());
  CHECK_FALSE(ShareInterval(std::vector<Score>{{0, 0}}).has_value());
  CHECK_THROWS(ShareInterval(std::vector<Score>{{2, 1}}));
}

TEST_CASE("share interval: the smallest scores and sizes have finite bounds") {
  for (const double value : {1e-300, 1e-12, 1.0}) {
    for (const double size : {1.0, 1e6}) {
      const std::vector<Score> units = {{value, size}, {0, 1}, {0, size}};
      CAPTURE(value, size);
      const Interval ci = *ShareInterval(units);
      CHECK((ci.low >= 0 && ci.low < ci.high && ci.high <= 1));
    }
  }
}

TEST_CASE("bca: depends on its seed alone, moves and scales with the data") {
  const std::vector<double> v = {0.2, 0.9, 0.95, 0.97, 0.98, 0.99, 0.99, 1.0};
  const Interval ci = *BootstrapBca(v);
  CHECK(ci.low == BootstrapBca(v)->low);
  CHECK(ci.low != BootstrapBca(v, 0.95, 10'000, 1)->low);
  CHECK(ci.low > *std::min_element(v.begin(), v.end()));
  CHECK(ci.low < Mean(v));
  CHECK(ci.high > Mean(v));
  CHECK(ci.high < 1.0);
  // Left-skewed: the lower arm is the longer one, unlike Student's.
  CHECK(Mean(v) - ci.low > ci.high - Mean(v));
  std::vector<double> moved;
  for (const double x : v) moved.push_back(3 * x + 1);
  CHECK(std::abs(BootstrapBca(moved)->low - (3 * ci.low + 1)) < 1e-9);
  CHECK(BootstrapBca(std::vector<double>(8, 0.5))->low == 0.5);
  CHECK(BootstrapBca(std::vector<double>(8, 0.5))->high == 0.5);
  CHECK_FALSE(BootstrapBca(std::vector<double>{1}).has_value());
}

TEST_CASE("bca: approaches the normal interval for a large symmetric sample") {
  std::vector<double> v;
  for (int i = 0; i < 400; ++i) v.push_back(i - 199.5);
  // The bootstrap of a mean has standard deviation sqrt(sum x^2 / n) / sqrt(n) = 5.7735.
  const double half = 1.959964 * std::sqrt((400.0 * 400 - 1) / 12) / 20;
  const Interval ci = *BootstrapBca(v, 0.95, 20'000);
  // The 2.5 % quantile of 20,000 draws has a standard error of about 0.018 sigma = 0.11.
  CHECK(std::abs(ci.high - half) < 0.5);
  CHECK(std::abs(ci.low + half) < 0.5);
}

}  // namespace
}  // namespace mixerbench::reports
