// Integer weight tables for weighted picks, built once on the host.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace mixerbench::tasks {

// w[g] = floor(2^31 * p_g) + 1 with p_g proportional to (g+1)^(exponent-1), g = 0..num_slots-1.
// exponent 1 is uniform, smaller prefers low slots (0.01 is nearly 1/(g+1)), larger prefers high
// ones. The total stays below 2^32 for num_slots <= 2^24. Requires num_slots >= 1, exponent > 0.
std::vector<std::uint32_t> PowerLawWeights(std::int64_t num_slots, double exponent);

}  // namespace mixerbench::tasks
