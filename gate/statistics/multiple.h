// Several tests at once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

namespace mixerbench::gate {

struct Tested {
  double p = 1;
  // Every p value that the test can take, ascending; empty: any.
  std::vector<double> attainable = {};
};

// Holm's adjusted p values, in the order given. A discrete test adds to the correction only what it
// can reach: P(p_k <= p) in place of p (Westfall and Wolfinger 1997). So a headline in which all
// seeds are solved on both sides costs the others nothing. Without discrete tests this is Holm
// 1979.
std::vector<double> HolmAdjusted(std::span<const Tested> tests);

}  // namespace mixerbench::gate
