// SPDX-License-Identifier: Apache-2.0
#include "reports/statistics/permutation.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "base/check.h"
#include "reports/statistics/statistics.h"

namespace mixerbench::reports {
namespace {

constexpr double kMostWays = 20'000;
constexpr std::int64_t kNumDraws = 1'999;

double Sum(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

// The logarithm of how many ways there are to choose k of n.
double LogWays(std::size_t n, std::size_t k) {
  const auto log_factorial = [](std::size_t m) { return std::lgamma(static_cast<double>(m) + 1); };
  return log_factorial(n) - log_factorial(k) - log_factorial(n - k);
}

}  // namespace

double PermutationPValue(std::span<const double> a, std::span<const double> b) {
  Require(!a.empty() && !b.empty(), "a permutation test needs two groups of values");
  std::vector<double> all(a.begin(), a.end());
  all.insert(all.end(), b.begin(), b.end());
  const double total = Sum(all);
  const auto gap = [&](double sum_of_a) {
    return std::abs(sum_of_a / static_cast<double>(a.size()) -
                    (total - sum_of_a) / static_cast<double>(b.size()));
  };
  // The same values summed in another order differ by rounding only.
  const auto [smallest, largest] = std::minmax_element(all.begin(), all.end());
  const double as_much = gap(Sum(a)) - 1e-12 * (*largest - *smallest);
  if (LogWays(all.size(), a.size()) <= std::log(kMostWays)) {
    std::vector<char> in_a(all.size(), 0);
    std::fill_n(in_a.begin(), a.size(), 1);
    std::int64_t num_extreme = 0, num = 0;
    do {
      double sum = 0;
      for (std::size_t i = 0; i < all.size(); ++i) sum += in_a[i] ? all[i] : 0;
      num_extreme += gap(sum) >= as_much ? 1 : 0;
      ++num;
    } while (std::prev_permutation(in_a.begin(), in_a.end()));
    return static_cast<double>(num_extreme) / static_cast<double>(num);
  }
  std::int64_t num_extreme = 1;  // the groups as they are
  std::uint64_t draw = 0;
  for (std::int64_t i = 0; i < kNumDraws; ++i) {
    for (std::size_t k = 0; k < a.size(); ++k) {
      std::swap(all[k], all[k + BootstrapIndex(0, draw++, all.size() - k)]);
    }
    num_extreme += gap(Sum(std::span(all).first(a.size()))) >= as_much ? 1 : 0;
  }
  return static_cast<double>(num_extreme) / static_cast<double>(kNumDraws + 1);
}

}  // namespace mixerbench::reports
