// SPDX-License-Identifier: Apache-2.0
#include "tasks/fwe/zeta.h"

#include <cmath>

namespace mixerbench::tasks::fwe {

double Zeta(double alpha) {
  // The first terms, then the Euler-Maclaurin formula for the rest from n on.
  constexpr int kTerms = 32;
  double sum = 0;
  for (int k = kTerms - 1; k >= 1; --k) sum += std::pow(k, -alpha);
  const double n = kTerms;
  const double power = std::pow(n, -alpha);
  return sum + power * n / (alpha - 1) + power / 2 + alpha * power / (12 * n) -
         alpha * (alpha + 1) * (alpha + 2) * power / (720 * n * n * n);
}

std::int64_t RankCount(std::int64_t size, std::int64_t rank, double alpha, double zeta) {
  const double share = std::pow(static_cast<double>(rank), -alpha) / zeta;
  return static_cast<std::int64_t>(std::floor(static_cast<double>(size) * share));
}

}  // namespace mixerbench::tasks::fwe
