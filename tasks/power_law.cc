// SPDX-License-Identifier: Apache-2.0
#include "tasks/power_law.h"

#include <cmath>
#include <limits>

#include "base/check.h"

namespace mixerbench::tasks {

// The floor must be that of the exact value on every machine. An error of 2^-63 relative leaves
// 2^-32 at 2^31, far below the distance of any shipped table to an integer (2.9e-4).
static_assert(std::numeric_limits<long double>::digits >= 64,
              "power-law tables need an 80-bit or wider long double");

std::vector<std::uint32_t> PowerLawWeights(std::int64_t num_slots, double exponent) {
  Require(num_slots >= 1 && num_slots <= (1 << 24), "power law: 1 to 2^24 slots");
  Require(exponent > 0 && std::isfinite(exponent), "power law: the exponent must be positive");
  const long double power = static_cast<long double>(exponent) - 1;
  const auto count = static_cast<long double>(num_slots);
  // Relative to the last slot only when the plain powers overflow: whole powers stay exact.
  const bool is_huge = !std::isfinite(count * std::pow(count, power));
  const long double unit = is_huge ? count : 1;

  std::vector<long double> shares(static_cast<std::size_t>(num_slots));
  long double sum = 0;
  long double lost = 0;  // Kahan summation
  for (std::size_t g = 0; g < shares.size(); ++g) {
    shares[g] = std::pow(static_cast<long double>(g + 1) / unit, power);
    const long double term = shares[g] - lost;
    const long double next = sum + term;
    lost = (next - sum) - term;
    sum = next;
  }
  std::vector<std::uint32_t> weights;
  weights.reserve(shares.size());
  for (const long double share : shares) {
    weights.push_back(static_cast<std::uint32_t>(std::floor(share * 2147483648.0L / sum)) + 1);
  }
  return weights;
}

}  // namespace mixerbench::tasks
