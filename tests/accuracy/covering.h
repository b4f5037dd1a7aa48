// Few rows that together try every combination of levels of certain sets of factors: the covering
// arrays of combinatorial testing, for factors with constraints.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

namespace mixerbench::accuracy {

using Levels = std::vector<int>;  // a level of every factor

struct CoveringProblem {
  std::vector<int> num_levels;  // of every factor
  // Sets of factors of which every combination of levels is to appear, unless no allowed row has
  // it.
  std::vector<std::vector<int>> interactions;
  std::function<bool(const Levels&)> allowed;
  std::function<double(const Levels&)> cost;
};

// All sets of two of `num_factors` factors.
std::vector<std::vector<int>> AllPairs(int num_factors);

// A function of the problem alone: takes the row with the most combinations that no earlier one
// has, of several the cheapest, of these the first, until nothing is left. The full product must
// fit in memory.
std::vector<Levels> Cover(const CoveringProblem& problem);

}  // namespace mixerbench::accuracy
