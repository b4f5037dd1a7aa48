// SPDX-License-Identifier: Apache-2.0
#include "reports/summary/merge_reports.h"

#include <algorithm>
#include <string>
#include <utility>

#include "reports/testing/test_cells.h"

#include "tests/support/catch2.h"

namespace mixerbench::reports {
namespace {

SweepReport Part(const std::string& name, std::uint64_t first_seed, std::uint64_t end_seed,
                 Value config = Object{}) {
  std::vector<CellResult> cells = ExampleSweep(4);
  std::erase_if(cells, [&](const CellResult& cell) {
    return cell.kind == "train" ? cell.seed < first_seed || cell.seed >= end_seed : first_seed > 0;
  });
  return MakeSweepReport(name, std::move(config), std::move(cells));
}

}  // namespace

TEST_CASE("merge: seeds of two folders are one group", "[reports]") {
  SweepReport whole = Part("a", 0, 4);
  CHECK(DumpSweep(MergeReports({Part("a", 0, 2), Part("a", 2, 4)})) == DumpSweep(whole));
  CHECK(DumpSweep(MergeReports({whole})) == DumpSweep(whole));
}

TEST_CASE("merge: several suites have the form of a merged plan", "[reports]") {
  const SweepReport merged =
      MergeReports({Part("a", 0, 2, Object{{"name", "a"}}), Part("b", 2, 4, Object{{"name", "b"}}),
                    Part("a", 0, 2, Object{{"name", "a"}})});
  CHECK(merged.name == "a + b");
  CHECK(merged.config ==
        Value(Object{{"merged", Array{Object{{"name", "a"}}, Object{{"name", "b"}}}}}));
  CHECK(merged.cells.size() == Part("", 0, 4).cells.size());
}

TEST_CASE("merge: the first result of a cell stands", "[reports]") {
  SweepReport planned = Part("a", 0, 1), first = planned, second = planned;
  for (CellResult& cell : planned.cells) cell.state = CellState::kPlanned;
  for (CellResult& cell : first.cells) cell.wall_s = 1;
  for (CellResult& cell : second.cells) cell.wall_s = 2;
  planned.left_out = {{"sha256:1", "x", 0, "of other code"}};
  const SweepReport merged = MergeReports({planned, first, second});
  CHECK(merged.cells.size() == first.cells.size());
  CHECK(std::all_of(merged.cells.begin(), merged.cells.end(),
                    [](const CellResult& cell) { return cell.wall_s == 1; }));
  CHECK(merged.left_out.size() == 1);
}

}  // namespace mixerbench::reports
