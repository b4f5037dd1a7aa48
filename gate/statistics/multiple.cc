// SPDX-License-Identifier: Apache-2.0
#include "gate/statistics/multiple.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace mixerbench::gate {
namespace {

// P(p value of this test <= p) when nothing changed.
double Reach(const Tested& test, double p) {
  if (test.attainable.empty()) return p;
  // Sums in another order differ by rounding only.
  const auto above =
      std::upper_bound(test.attainable.begin(), test.attainable.end(), p * (1 + 1e-12));
  return above == test.attainable.begin() ? 0 : *std::prev(above);
}

}  // namespace

std::vector<double> HolmAdjusted(std::span<const Tested> tests) {
  std::vector<std::size_t> order(tests.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return tests[a].p < tests[b].p; });
  std::vector<double> adjusted(tests.size());
  double running = 0;
  for (std::size_t step = 0; step < order.size(); ++step) {
    double sum = 0;
    for (std::size_t later = step; later < order.size(); ++later) {
      sum += Reach(tests[order[later]], tests[order[step]].p);
    }
    running = std::max(running, std::min(1.0, sum));
    adjusted[order[step]] = running;
  }
  return adjusted;
}

}  // namespace mixerbench::gate
