// SPDX-License-Identifier: Apache-2.0
#include "reports/view/marks.h"

#include <functional>

#include "reports/statistics/permutation.h"

namespace mixerbench::reports {
namespace {

// The row whose value in a column comes first, or nullptr where there are no two to compare.
const Row* BestOf(const Table& table, std::size_t column,
                  const std::function<bool(double, double)>& comes_before) {
  const Row* best = nullptr;
  std::size_t num_values = 0;
  for (const Row& row : table.rows) {
    const auto& value = row.cells[column].value;
    if (!value) continue;
    ++num_values;
    if (!best || comes_before(*value, *best->cells[column].value)) best = &row;
  }
  return num_values < 2 ? nullptr : best;
}

// Two results of one kind each: over seeds, over items, or without an interval, which is told apart
// from everything.
bool IsToldApart(const Datum& a, const Datum& b) {
  if (!a.seeds.empty() && !b.seeds.empty()) return PermutationPValue(a.seeds, b.seeds) < kNotTold;
  const bool are_comparable = a.seeds.empty() && b.seeds.empty() && a.low && b.low;
  return !are_comparable || *a.high < *b.low || *a.low > *b.high;
}

}  // namespace

void MarkHighest(Table& table, std::size_t column, std::optional<double> tied) {
  const Row* best = BestOf(table, column, std::greater<>());
  if (!best) return;
  const Datum top = best->cells[column];
  for (Row& row : table.rows) {
    Datum& datum = row.cells[column];
    if (!datum.value || datum.is_imputed) continue;
    datum.is_best =
        *datum.value == *top.value || !IsToldApart(datum, top) || (tied && *datum.value >= *tied);
  }
}

void MarkLowest(Table& table, std::size_t column) {
  const Row* best = BestOf(table, column, std::less<>());
  if (!best) return;
  const double lowest = *best->cells[column].value;
  for (Row& row : table.rows) {
    Datum& datum = row.cells[column];
    datum.is_best = datum.value && *datum.value == lowest;
  }
}

}  // namespace mixerbench::reports
