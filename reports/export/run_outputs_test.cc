// SPDX-License-Identifier: Apache-2.0
#include "reports/export/run_outputs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "reports/export/junit_xml.h"
#include "reports/testing/test_cells.h"

#include "tests/support/catch2.h"

namespace mixerbench::reports {
namespace {

std::size_t Count(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

bool Contains(const std::string& text, const std::string& part) { return Count(text, part) > 0; }

// A cell in each state.
SweepReport EveryState() {
  std::vector<CellResult> cells;
  for (const auto& [state, name] : EnumNames<CellState>::kNames) {
    CellResult cell = ExampleCell();
    cell.name = "mqar/gla/state=" + std::string(name);
    cell.state = state;
    cell.reason = state == CellState::kCompleted ? "" : "because of " + std::string(name);
    cell.run_id = "sha256:" + std::string(name);
    cell.group_id = cell.run_id;
    cells.push_back(std::move(cell));
  }
  return MakeSweepReport("states", {}, std::move(cells));
}

}  // namespace

TEST_CASE("JUnit: a case for each cell, by its state", "[reports][export]") {
  const std::string xml = RenderCellsJUnit(std::array{EveryState()});
  CHECK(Count(xml, "<testcase ") == 9);
  CHECK(Contains(xml, R"(tests="9" failures="0" errors="4" skipped="4")"));
  for (const char* state : {"diverged", "oom", "timeout", "error"}) {
    CHECK(Contains(xml, "type=\"" + std::string(state) + "\">because of " + state + "</error>"));
  }
  for (const char* state : {"planned", "interrupted", "skipped", "unsupported"}) {
    CHECK(Contains(xml, "<skipped message=\"" + std::string(state) + ": because of " + state));
  }
  CHECK(Contains(xml, "gla state=completed seed"));
  CHECK(Contains(xml, R"(<testsuite package="mixerbench.run" id="0" name="mqar")"));
}

TEST_CASE("JUnit: what completed without one of its segments is an error", "[reports][export]") {
  SweepReport report = EveryState();
  for (CellResult& cell : report.cells) {
    if (cell.state != CellState::kCompleted) continue;
    AccuracyRow& row = cell.accuracy.front();
    row.state = CellState::kOom;
    row.reason = "3 GiB were wanted";
    row.accuracy.reset();
  }
  const std::string xml = RenderCellsJUnit(std::array{report});
  CHECK(Contains(xml, R"(tests="9" failures="0" errors="5" skipped="4")"));
  CHECK(Contains(xml, "oom: 3 GiB were wanted</error>"));
  const std::string text = RenderRunSummary(std::array{report}, ExitCode::kCellsFailed, "");
  CHECK(Count(text, "| states | mqar/gla/state=") == 9);
  CHECK(Contains(text, "oom: 3 GiB were wanted |"));
  CHECK(Contains(RenderRunAnnotations(std::array{report}), "oom%3A mqar/gla/state=completed"));
}

TEST_CASE("JUnit: what completed but for a segment that is not supported is skipped",
          "[reports][export]") {
  SweepReport report = EveryState();
  for (CellResult& cell : report.cells) {
    if (cell.state != CellState::kCompleted) continue;
    AccuracyRow& row = cell.accuracy.front();
    row.state = CellState::kUnsupported;
    row.reason = "there are 16 learned positions";
    row.accuracy.reset();
    CHECK_FALSE(IsWhole(cell));  // so the exit code tells it
  }
  const std::string xml = RenderCellsJUnit(std::array{report});
  CHECK(Contains(xml, R"(tests="9" failures="0" errors="4" skipped="5")"));
  CHECK(Contains(xml, "unsupported: there are 16 learned positions"));
  const std::string text = RenderRunSummary(std::array{report}, ExitCode::kCellsFailed, "");
  CHECK(Count(text, "| states | mqar/gla/state=") == 9);
}

TEST_CASE("JUnit: a duration that is not known is 0", "[reports][export]") {
  SweepReport report = EveryState();
  for (CellResult& cell : report.cells) cell.wall_s = std::nan("");
  const std::string xml = RenderCellsJUnit(std::array{report});
  CHECK(Count(xml, "time=\"0.000\"") == 10);  // the cells and their suite
  CHECK_FALSE(Contains(xml, "nan"));
}

TEST_CASE("JUnit: a step that the reason tells is not told again", "[reports][export]") {
  SweepReport report = EveryState();
  for (CellResult& cell : report.cells) {
    if (cell.state != CellState::kDiverged) continue;
    cell.step = 5;
    cell.reason = "training loss is not finite at step 5";
  }
  std::string xml = RenderCellsJUnit(std::array{report});
  CHECK(Count(xml, "not finite at step 5") > 0);
  CHECK_FALSE(Contains(xml, "at step 5 at step 5"));
  for (CellResult& cell : report.cells) cell.step = 15;
  xml = RenderCellsJUnit(std::array{report});
  CHECK(Contains(xml, "not finite at step 5 at step 15"));
}

TEST_CASE("JUnit: suites of several reports are told apart", "[reports][export]") {
  SweepReport other = EveryState();
  other.name = "others";
  const std::string xml = RenderCellsJUnit(std::array{EveryState(), other});
  CHECK(Count(xml, "<testsuite ") == 2);
  CHECK(Contains(xml, "name=\"states/mqar\""));
  CHECK(Contains(xml, "name=\"others/mqar\""));
}

TEST_CASE("JUnit: nothing that XML 1.0 cannot hold", "[reports][export]") {
  CHECK(EscapeXml("a<b>&\"c\n\x01") == "a&lt;b&gt;&amp;&quot;c&#10;\xEF\xBF\xBD");
  CHECK(EscapeXml("\xEF\xBF\xBF") == "\xEF\xBF\xBD");
  CHECK(EscapeXml("é→") == "é→");
}

TEST_CASE("A suite that has not begun is a case and a line", "[reports][export]") {
  const std::string suites[] = {"b<c"};
  const std::string xml = RenderCellsJUnit({}, suites);
  CHECK(Contains(xml, "name=\"b&lt;c\""));
  CHECK(Count(xml, "<testcase") == 1);
  CHECK(Contains(xml, "<skipped message=\"the suite has not begun\""));
  const std::string text =
      RenderRunSummary(std::array{EveryState()}, ExitCode::kMissing, "the page", suites);
  CHECK(Contains(text, "- **b&lt;c**: has not begun\n"));
}

TEST_CASE("A job summary has every cell that did not complete", "[reports][export]") {
  const std::string text =
      RenderRunSummary(std::array{EveryState()}, ExitCode::kCellsFailed, "the page");
  CHECK(Contains(text, "9 cells: 1 planned, 1 completed, 1 diverged"));
  CHECK(Contains(text, "Exit code 4."));
  CHECK(Count(text, "| states | mqar/gla/state=") == 8);
  CHECK(Contains(text, "the page"));
}

TEST_CASE("A job summary keeps its limit: the page goes first, then rows", "[reports][export]") {
  const SweepReport report = EveryState();
  const std::string page(5000, 'p');
  const auto render = [&](std::size_t max_bytes) {
    return RenderRunSummary(std::array{report}, ExitCode::kCellsFailed, page, {}, max_bytes);
  };
  const std::string whole = render(kMaxSummaryBytes);
  const std::string without_page = render(whole.size() - 1);
  CHECK_FALSE(Contains(without_page, "ppp"));
  CHECK(Count(without_page, "because of") == 8);
  const std::string cut = render(700);
  CHECK(cut.size() <= 700);
  CHECK(Contains(cut, "more are in the report"));
}

TEST_CASE("Annotations: failed cells, at most ten, nothing of a name acts", "[reports][export]") {
  CHECK(Count(RenderRunAnnotations(std::array{EveryState()}), "::error title=") == 4);
  std::vector<CellResult> cells(12, ExampleCell());
  for (std::size_t i = 0; i < cells.size(); ++i) {
    cells[i].name = "mqar/a%0A::error::b,c/lr=" + std::to_string(i);
    cells[i].state = CellState::kOom;
    cells[i].reason = "first\n::error::second";
  }
  const std::string text =
      RenderRunAnnotations(std::array{MakeSweepReport("many", {}, std::move(cells))});
  CHECK(std::count(text.begin(), text.end(), '\n') == 10);
  CHECK(Count(text, "\n::error title=") == 9);
  CHECK_FALSE(Contains(text, "%0A"));
}

}  // namespace mixerbench::reports
