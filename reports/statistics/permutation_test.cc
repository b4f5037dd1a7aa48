// SPDX-License-Identifier: Apache-2.0
#include "reports/statistics/permutation.h"

#include <vector>

#include "tests/support/catch2.h"

namespace mixerbench::reports {

TEST_CASE("permutation: counted by hand") {
  // 4 against 4 apart from each other: the two extremes of 70 ways.
  CHECK(PermutationPValue(std::vector<double>{1, 2, 3, 4}, std::vector<double>{5, 6, 7, 8}) ==
        Approx(2.0 / 70));
  // Of 20 ways to divide five ones and a zero, all have the zero on one side or the other.
  CHECK(PermutationPValue(std::vector<double>{1, 1, 1}, std::vector<double>{1, 1, 0}) == 1);
  // 5 of 5 against 3 of 5: both zeros on one side in 2 C(8, 3) of 252 ways.
  CHECK(PermutationPValue(std::vector<double>{1, 1, 1, 1, 1}, std::vector<double>{1, 1, 1, 0, 0}) ==
        Approx(112.0 / 252));
  CHECK(PermutationPValue(std::vector<double>{1, 1}, std::vector<double>{1, 1, 1}) == 1);
  // Groups of different sizes: 6 is the largest of four values in one of four ways, and no other
  // way has means as far apart.
  CHECK(PermutationPValue(std::vector<double>{6}, std::vector<double>{1, 2, 3}) == 0.25);
  CHECK_THROWS(PermutationPValue(std::vector<double>{}, std::vector<double>{1}));
}

TEST_CASE("permutation: does not depend on order or side, and rounding makes no tie extreme") {
  const std::vector<double> a = {0.1, 0.7, 0.3, 0.2, 0.9}, b = {0.8, 0.9, 0.6, 0.4, 0.5};
  const std::vector<double> turned = {0.9, 0.2, 0.3, 0.7, 0.1};
  CHECK(PermutationPValue(a, b) == PermutationPValue(b, a));
  CHECK(PermutationPValue(turned, b) == PermutationPValue(a, b));
  CHECK(PermutationPValue(a, turned) == 1);
}

TEST_CASE("permutation: many values are drawn, the same every time") {
  std::vector<double> low, high, mixed;
  for (int i = 0; i < 20; ++i) {
    low.push_back(i);
    high.push_back(i + 12);
    mixed.push_back(i + (i % 2 == 0 ? 1 : -1));
  }
  CHECK(PermutationPValue(low, high) < 0.001);
  CHECK(PermutationPValue(low, high) > 0);  // as it is one of the ways itself
  CHECK(PermutationPValue(low, mixed) > 0.9);
  CHECK(PermutationPValue(low, high) == PermutationPValue(low, high));
  const std::vector<double> thousand(1000, 0.5);
  CHECK(PermutationPValue(thousand, thousand) == 1);
}

}  // namespace mixerbench::reports
