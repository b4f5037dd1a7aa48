// Every statistic against values made by scipy or by enumeration (testdata/make_reference.py).
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <string>
#include <vector>

#include "gate/statistics/exact_tests.h"
#include "gate/statistics/median_bootstrap.h"
#include "gate/statistics/multiple.h"
#include "gate/statistics/paired_mean.h"
#include "io/atomic_file.h"
#include "io/json.h"

#include "tests/support/catch2.h"

namespace mixerbench::gate {
namespace {

constexpr double kAgreement = 1e-9;

const Value& Reference() {
  static const Value reference =
      io::ParseJson(io::ReadFile("gate/statistics/testdata/reference.json"));
  return reference;
}

const Array& Cases(const char* name) { return Reference().Find(name)->as_array(); }

double Number(const Value& item, const char* key) { return item.Find(key)->as_double(); }

std::vector<double> Numbers(const Value& item, const char* key) {
  std::vector<double> numbers;
  for (const Value& number : item.Find(key)->as_array()) numbers.push_back(number.as_double());
  return numbers;
}

void CheckNear(double value, double expected) {
  CAPTURE(value, expected);
  CHECK(std::abs(value - expected) <= kAgreement);
}

SolvedCount Count(const Value& item, const char* key) {
  const Array& pair = item.Find(key)->as_array();
  return {pair[0].as_int(), pair[1].as_int()};
}

TEST_CASE("fisher: agrees with scipy") {
  for (const Value& item : Cases("fisher")) {
    CheckNear(FisherLoss(Count(item, "base"), Count(item, "candidate")), Number(item, "p"));
  }
}

TEST_CASE("fisher: what can be seen, and what can be reached") {
  CHECK_FALSE(VisibleSolved({3, 3}, 3, 0.04).has_value());
  CHECK(VisibleSolved({4, 4}, 4, 0.05) == 0);
  CHECK(VisibleSolved({5, 5}, 5, 0.05) == 1);
  CHECK(VisibleSolved({8, 8}, 8, 0.05) == 4);
  CHECK(VisibleSolved({10, 10}, 10, 0.05) == 6);
  CHECK(VisibleSolved({16, 16}, 16, 0.05) == 11);
  CHECK(VisibleSolved({20, 20}, 20, 0.05) == 15);
  CHECK_FALSE(VisibleSolved({2, 5}, 5, 0.05).has_value());
  CHECK(FisherAttainable({5, 5}, {5, 5}) == std::vector<double>{1.0});
  CHECK(FisherAttainable({5, 5}, {0, 5}).size() == 6);
  CHECK(FisherAttainable({0, 5}, {0, 5}) == std::vector<double>{1.0});
  CHECK_THROWS(FisherLoss({6, 5}, {0, 5}));
}

TEST_CASE("signed rank: agrees with scipy, and with enumeration for ties and censored pairs") {
  for (const Value& item : Cases("signed_rank")) {
    const std::vector<double> values = Numbers(item, "losses");
    const Array& censored = item.Find("censored")->as_array();
    std::vector<PairedLoss> losses;
    for (std::size_t i = 0; i < values.size(); ++i) {
      losses.push_back({values[i], censored[i].as_bool()});
    }
    CheckNear(SignedRank(losses), Number(item, "p"));
  }
  CHECK(SignedRank({}) == 1);
  CHECK(SignedRank(std::vector<PairedLoss>(5)) == 1);
}

TEST_CASE("sign flip: agrees with scipy, and with its floors") {
  for (const Value& item : Cases("sign_flip")) {
    CheckNear(*SignFlip(Numbers(item, "losses")), Number(item, "p"));
  }
  CHECK_FALSE(SignFlip(std::vector<double>(21, 1.0)).has_value());
}

TEST_CASE("paired mean: agrees with scipy") {
  for (const Value& item : Cases("paired_mean")) {
    const PairedMean mean(Numbers(item, "differences"));
    CheckNear(mean.mean(), Number(item, "mean"));
    CheckNear(mean.PAbove(0), Number(item, "above_0"));
    CheckNear(mean.PBelow(0.5), Number(item, "below_half"));
    CheckNear(mean.Interval().low, Number(item, "low"));
    CheckNear(mean.Interval().high, Number(item, "high"));
    CheckNear(mean.UpperBound(0.05), Number(item, "upper"));
    CheckNear(mean.LowerBound(0.01), Number(item, "lower"));
    CheckNear(mean.Visible(0.5, 0.05), Number(item, "visible"));
  }
}

TEST_CASE("paired mean: equal differences are exact") {
  const PairedMean zero(std::vector<double>(5, 0.0));
  CHECK(zero.PAbove(0) == 1);
  CHECK(zero.UpperBound(0.01) == 0);
  CHECK(zero.Visible(0.02, 0.05) == 0.02);
  const PairedMean tenth(std::vector<double>(7, 0.1));
  CHECK(tenth.mean() == 0.1);
  CHECK(tenth.PAbove(0) == 0);
  CHECK(tenth.Interval().low == 0.1);
  CHECK_THROWS(PairedMean(std::vector<double>{1.0}));
}

TEST_CASE("holm: agrees with R, and discrete tests cost what they can reach") {
  for (const Value& item : Cases("holm")) {
    std::vector<Tested> tests;
    for (const Value& test : item.Find("tests")->as_array()) {
      tests.push_back({Number(test, "p"), Numbers(test, "attainable")});
    }
    const std::vector<double> expected = Numbers(item, "adjusted");
    const std::vector<double> adjusted = HolmAdjusted(tests);
    for (std::size_t i = 0; i < expected.size(); ++i) CheckNear(adjusted[i], expected[i]);
  }
  CHECK(HolmAdjusted({}).empty());
}

TEST_CASE("median bootstrap: agrees with enumeration of all resamples") {
  for (const Value& item : Cases("median_bootstrap")) {
    const MedianBootstrap bootstrap(Numbers(item, "values"));
    CheckNear(bootstrap.median(), Number(item, "median"));
    CheckNear(bootstrap.Cdf(0), Number(item, "cdf_0"));
    for (const Value& pair : item.Find("quantiles")->as_array()) {
      CAPTURE(pair.as_array()[0].as_double());
      CheckNear(bootstrap.Quantile(pair.as_array()[0].as_double()), pair.as_array()[1].as_double());
    }
  }
}

TEST_CASE("cliff's delta: agrees with scipy's U") {
  for (const Value& item : Cases("cliffs_delta")) {
    CheckNear(CliffsDelta(Numbers(item, "base"), Numbers(item, "candidate")),
              Number(item, "delta"));
  }
}

}  // namespace
}  // namespace mixerbench::gate
