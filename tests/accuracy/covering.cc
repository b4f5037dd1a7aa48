// SPDX-License-Identifier: Apache-2.0
#include "tests/accuracy/covering.h"

#include <cstddef>
#include <limits>
#include <numeric>

namespace mixerbench::accuracy {
namespace {

// Every allowed row of the full product, the last factor fastest.
std::vector<Levels> AllowedRows(const CoveringProblem& problem) {
  std::vector<Levels> rows;
  Levels row(problem.num_levels.size(), 0);
  while (true) {
    if (problem.allowed(row)) rows.push_back(row);
    std::size_t factor = row.size();
    while (factor > 0 && ++row[factor - 1] == problem.num_levels[factor - 1]) row[--factor] = 0;
    if (factor == 0) return rows;
  }
}

// The combinations of all interactions, numbered one after the other.
class Combinations {
 public:
  explicit Combinations(const CoveringProblem& problem) : problem_(problem) {
    for (const auto& factors : problem.interactions) {
      first_.push_back(size_);
      size_ += std::accumulate(
          factors.begin(), factors.end(), std::size_t{1},
          [&](std::size_t product, int factor) { return product * NumLevels(factor); });
    }
  }

  std::size_t size() const { return size_; }

  // The one of `row` in an interaction.
  std::size_t Index(const Levels& row, std::size_t interaction) const {
    std::size_t index = 0;
    for (const int factor : problem_.interactions[interaction]) {
      index = index * NumLevels(factor) +
              static_cast<std::size_t>(row[static_cast<std::size_t>(factor)]);
    }
    return first_[interaction] + index;
  }

 private:
  std::size_t NumLevels(int factor) const {
    return static_cast<std::size_t>(problem_.num_levels[static_cast<std::size_t>(factor)]);
  }

  const CoveringProblem& problem_;
  std::vector<std::size_t> first_;
  std::size_t size_ = 0;
};

}  // namespace

std::vector<std::vector<int>> AllPairs(int num_factors) {
  std::vector<std::vector<int>> pairs;
  for (int first = 0; first < num_factors; ++first) {
    for (int second = first + 1; second < num_factors; ++second) pairs.push_back({first, second});
  }
  return pairs;
}

std::vector<Levels> Cover(const CoveringProblem& problem) {
  const std::vector<Levels> rows = AllowedRows(problem);
  const Combinations combinations(problem);
  std::vector<bool> covered(combinations.size(), false);
  std::vector<Levels> chosen;
  while (true) {
    const Levels* best = nullptr;
    int best_count = 0;
    double best_cost = std::numeric_limits<double>::infinity();
    for (const Levels& row : rows) {
      int count = 0;
      for (std::size_t i = 0; i < problem.interactions.size(); ++i) {
        count += covered[combinations.Index(row, i)] ? 0 : 1;
      }
      if (count == 0 || count < best_count) continue;
      const double cost = problem.cost(row);
      if (count == best_count && cost >= best_cost) continue;
      best = &row;
      best_count = count;
      best_cost = cost;
    }
    if (best == nullptr) return chosen;
    for (std::size_t i = 0; i < problem.interactions.size(); ++i) {
      covered[combinations.Index(*best, i)] = true;
    }
    chosen.push_back(*best);
  }
}

}  // namespace mixerbench::accuracy
