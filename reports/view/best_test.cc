// What is bold in a table.
// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "reports/statistics/statistics.h"
#include "reports/summary/sweep_report.h"
#include "reports/testing/test_cells.h"
#include "reports/view/datums.h"
#include "reports/view/marks.h"
#include "reports/view/mixer_list.h"
#include "reports/view/study.h"
#include "reports/view/tables.h"

#include "tests/support/catch2.h"

namespace mixerbench::reports {
namespace {

Table ColumnOf(std::vector<Datum> data) {
  Table table;
  table.columns = {{.label = "Value"}};
  for (Datum& datum : data) table.Add({.cells = {std::move(datum)}});
  return table;
}

std::vector<bool> Bold(const Table& table) {
  std::vector<bool> bold;
  for (const Row& row : table.rows) bold.push_back(row.cells[0].is_best);
  return bold;
}

std::vector<bool> BoldLowest(std::vector<Datum> data) {
  Table table = ColumnOf(std::move(data));
  MarkLowest(table, 0);
  return Bold(table);
}

std::vector<bool> BoldHighest(std::vector<Datum> data, std::optional<double> tied = std::nullopt) {
  Table table = ColumnOf(std::move(data));
  MarkHighest(table, 0, tied);
  return Bold(table);
}

Datum Plain(double value) { return NumberDatum(value, "x"); }

Datum Between(double value, double low, double high) {
  Datum datum = Plain(value);
  datum.low = low;
  datum.high = high;
  return datum;
}

// As AccuracyDatum makes it of five seeds or more.
Datum OverSeeds(std::vector<double> seeds) {
  const Interval ci = *SeedInterval(seeds);
  Datum datum = Between(Mean(seeds), ci.low, ci.high);
  datum.seeds = std::move(seeds);
  return datum;
}

using Bools = std::vector<bool>;

}  // namespace

TEST_CASE("The fewest steps are bold, and nothing else", "[reports][view]") {
  CHECK(BoldLowest({Plain(4704), Plain(196), Plain(392), Datum{}, Plain(196)}) ==
        Bools{false, true, false, false, true});
  CHECK(BoldLowest({Plain(0.5), Plain(2), Plain(3)}) == Bools{true, false, false});
  CHECK(BoldLowest({Plain(196), Datum{}}) == Bools{false, false});
}

TEST_CASE("With one seed what overlaps with the highest is bold", "[reports][view]") {
  CHECK(BoldHighest({Between(0.9, 0.88, 0.92), Between(0.87, 0.85, 0.89), Between(0.8, 0.7, 0.87),
                     Plain(0.89)}) == Bools{true, true, false, false});
  CHECK(BoldHighest({Plain(0.995), Plain(0.991), Plain(0.98)}, 0.99) == Bools{true, true, false});
  CHECK(BoldHighest({Plain(5), Plain(3), Plain(2)}) == Bools{true, false, false});
}

TEST_CASE("Of means over seeds those are bold that the seeds do not tell apart",
          "[reports][view]") {
  // The intervals of all of them overlap, as five seeds exclude little.
  const Datum best = OverSeeds({0.999, 0.998, 0.997, 0.996, 0.985});
  const Datum most = OverSeeds({0.999, 0.998, 0.99, 0.989, 0.2});
  const Datum worst = OverSeeds({0.0001, 0.0001, 0.0002, 0.0001, 0});
  REQUIRE(*worst.high > *best.low);
  CHECK(BoldHighest({best, most, worst}) == Bools{true, true, false});
  CHECK(BoldHighest({best, OverSeeds({0.97, 0.96, 0.98, 0.975, 0.965})}) == Bools{true, false});
  // Between a mean over seeds and an accuracy of one seed nothing is compared.
  CHECK(BoldHighest({best, Between(0.98, 0.9, 1)}) == Bools{true, false});
}

TEST_CASE("What holds a failed seed is never bold", "[reports][view]") {
  Datum imputed = OverSeeds({0.99, 0.99, 0.99, 0.99, 0.0001});
  imputed.is_imputed = true;
  CHECK(BoldHighest({OverSeeds({0.99, 0.99, 0.99, 0.99, 0.98}), imputed}) == Bools{true, false});
  CHECK(BoldHighest({OverSeeds({0.1, 0.1, 0.1, 0.1, 0.2}), imputed}) == Bools{false, false});
  Datum tied = Plain(0.995);
  tied.is_imputed = true;
  CHECK(BoldHighest({Plain(0.999), tied}, 0.99) == Bools{true, false});
}

TEST_CASE("The table of a report marks by seeds, and a failed seed is known", "[reports][view]") {
  const auto table_of = [](int num_seeds) {
    const SweepReport report = MakeSweepReport("e", {}, ExampleSweep(num_seeds));
    const MixerList mixers({&report});
    return AccuracyTables(StudiesOf(report, mixers).front(), mixers).front();
  };
  const Table many = table_of(5);
  int num_imputed = 0;
  for (const Row& row : many.rows) {
    for (const Datum& datum : row.cells) {
      const bool is_marked = datum.text.ends_with("†");
      CHECK(datum.is_imputed == is_marked);
      if (is_marked) CHECK_FALSE(datum.is_best);
      num_imputed += is_marked;
      if (datum.is_imputed) CHECK(datum.seeds.size() == 5);
    }
  }
  CHECK(num_imputed > 0);
  CHECK((many.note.find("permutation test, p ≥ 0.05") != std::string::npos));
  CHECK((table_of(3).note.find("so few seeds") != std::string::npos));
  CHECK((table_of(1).note.find("intervals overlap") != std::string::npos));
}

}  // namespace mixerbench::reports
