// SPDX-License-Identifier: Apache-2.0
#include "tests/accuracy/covering.h"

#include <set>

#include "tests/support/catch2.h"

namespace mixerbench::accuracy {
namespace {

std::set<Levels> Combinations(const std::vector<Levels>& rows, const std::vector<int>& factors) {
  std::set<Levels> found;
  for (const Levels& row : rows) {
    Levels combination;
    for (const int factor : factors) {
      combination.push_back(row[static_cast<std::size_t>(factor)]);
    }
    found.insert(combination);
  }
  return found;
}

CoveringProblem Problem(std::vector<int> num_levels) {
  const int num_factors = static_cast<int>(num_levels.size());
  return {.num_levels = std::move(num_levels),
          .interactions = AllPairs(num_factors),
          .allowed = [](const Levels&) { return true; },
          .cost = [](const Levels& row) { return row[0]; }};
}

TEST_CASE("covering: every combination of two factors appears, in few rows") {
  const CoveringProblem problem = Problem({4, 3, 3, 2, 2});
  const auto rows = Cover(problem);
  for (const auto& factors : problem.interactions) {
    std::size_t product = 1;
    for (const int factor : factors) {
      product *= static_cast<std::size_t>(problem.num_levels[static_cast<std::size_t>(factor)]);
    }
    CHECK(Combinations(rows, factors).size() == product);
  }
  CHECK(rows.size() <= 16);  // at least 12, of 144
  CHECK(Cover(problem) == rows);
}

TEST_CASE("covering: larger interactions are covered where they are asked for") {
  CoveringProblem problem = Problem({3, 3, 2, 2});
  problem.interactions.push_back({0, 1, 2});
  CHECK(Combinations(Cover(problem), {0, 1, 2}).size() == 18);
}

TEST_CASE("covering: rows that are not allowed never appear, what only they have is left out") {
  CoveringProblem problem = Problem({3, 3, 2});
  problem.allowed = [](const Levels& row) { return row[0] != 2 || row[1] == 0; };
  const auto rows = Cover(problem);
  for (const Levels& row : rows) CHECK(problem.allowed(row));
  CHECK(Combinations(rows, {0, 1}).size() == 7);
}

TEST_CASE("covering: of rows that are equally good the cheapest is taken") {
  CoveringProblem problem = Problem({2, 2});
  CHECK(Cover(problem).front() == Levels{0, 0});
  problem.cost = [](const Levels& row) { return -row[0] - row[1]; };
  CHECK(Cover(problem).front() == Levels{1, 1});
}

}  // namespace
}  // namespace mixerbench::accuracy
