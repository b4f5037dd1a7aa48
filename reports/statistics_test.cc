// Expected values come from closed forms and published tables, named at each case.
// SPDX-License-Identifier: Apache-2.0
#include "reports/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "tests/support/catch2.h"

namespace mixerbench::reports {
namespace {

// Closed forms in double precision agree to a few ulps; tables are printed to 4 digits.
constexpr double kExact = 1e-12;
constexpr double kTable = 5e-5;

// Sum over k of the probability that the interval of k covers p.
double WilsonCoverage(std::int64_t n, double p) {
  double covered = 0;
  for (std::int64_t k = 0; k <= n; ++k) {
    const Interval ci = Wilson(k, n);
    if (ci.low > p || ci.high < p) continue;
    covered += std::exp(std::lgamma(double(n) + 1) - std::lgamma(double(k) + 1) -
                        std::lgamma(double(n - k) + 1) + double(k) * std::log(p) +
                        double(n - k) * std::log1p(-p));
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

TEST_CASE("student t: agrees with the t table") {
  // n = 2: t_{0.975,1} = tan(0.475 pi) = 12.7062; values 0 and 2 have s = sqrt(2), mean 1.
  const std::vector<double> two = {0, 2};
  const double t1 = std::tan(0.475 * std::acos(-1.0));
  CHECK(std::abs(StudentT(two)->high - (1 + t1)) < 1e-9);
  // n = 3: t_{p,2} = (2p-1) sqrt(2 / (4 p (1-p))) in closed form = 4.30265.
  const std::vector<double> three = {1, 2, 3};
  const double t2 = 0.95 * std::sqrt(2 / (4 * 0.975 * 0.025));
  CHECK(std::abs(StudentT(three)->low - (2 - t2 / std::sqrt(3.0))) < 1e-9);
  // n = 11: table value t_{0.975,10} = 2.2281.
  std::vector<double> eleven(11);
  std::iota(eleven.begin(), eleven.end(), 0.0);  // mean 5, s = sqrt(11)
  CHECK(std::abs(StudentT(eleven)->high - (5 + 2.2281)) < 1e-4);
  CHECK_FALSE(StudentT(std::vector<double>{1}).has_value());
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
}

TEST_CASE("cluster-robust: one position a sample is the usual interval of a mean") {
  std::vector<ClusterCount> samples;
  for (int i = 0; i < 40; ++i) samples.push_back({i % 4 != 0, 1});
  // p = 0.75; s^2 = n p q / (n-1), so half = t sqrt(p q / (n-1)) with t_{0.975,39} = 2.0227.
  const auto ci = ClusterRobust(samples);
  REQUIRE(ci.has_value());
  CHECK(ci->method == "cluster-robust");
  CHECK(std::abs(ci->high - (0.75 + 2.0227 * std::sqrt(0.75 * 0.25 / 39))) < 1e-5);
}

TEST_CASE("cluster-robust: copies of a position add no information") {
  std::vector<ClusterCount> one;
  std::vector<ClusterCount> many;
  for (int i = 0; i < 30; ++i) {
    one.push_back({i % 3 == 0, 1});
    many.push_back({i % 3 == 0 ? 16 : 0, 16});
  }
  CHECK(std::abs(ClusterRobust(one)->low - ClusterRobust(many)->low) < kExact);
  CHECK(std::abs(ClusterRobust(one)->high - ClusterRobust(many)->high) < kExact);
}

TEST_CASE("cluster-robust: falls back to Wilson over samples where its variance is blind") {
  const std::vector<ClusterCount> perfect(100, {8, 8});
  CHECK(ClusterRobust(perfect)->method == "wilson");
  CHECK(std::abs(ClusterRobust(perfect)->low - Wilson(100, 100).low) < kExact);
  CHECK(ClusterRobust(std::vector<ClusterCount>(50, {1, 3}))->method == "wilson");
  CHECK(ClusterRobust(std::vector<ClusterCount>{{3, 4}})->method == "wilson");
  CHECK_FALSE(ClusterRobust({}).has_value());
  CHECK_FALSE(ClusterRobust(std::vector<ClusterCount>{{0, 0}}).has_value());
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
