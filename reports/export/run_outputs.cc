// SPDX-License-Identifier: Apache-2.0
#include "reports/export/run_outputs.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fmt/format.h>
#include <map>
#include <vector>

#include "io/text.h"
#include "reports/export/junit_xml.h"
#include "reports/view/cell_parts.h"

namespace mixerbench::reports {
namespace {

// Its state or, where it completed, that of the segment that says why it is not whole.
CellState WorstOf(const CellResult& cell) {
  const AccuracyRow* lacking = LackingSegment(cell);
  return cell.state == CellState::kCompleted && lacking ? lacking->state : cell.state;
}

CaseOutcome OutcomeOf(const CellResult& cell) {
  const CellState worst = WorstOf(cell);
  if (worst == CellState::kCompleted) return CaseOutcome::kPassed;
  return IsFailure(worst) ? CaseOutcome::kError : CaseOutcome::kSkipped;
}

// Why it did not complete or, "512 tokens: oom: 3 GiB were wanted", not in all segments.
std::string ReasonOf(const CellResult& cell) {
  if (cell.state != CellState::kCompleted) return cell.reason;
  std::string text;
  for (const AccuracyRow& row : cell.accuracy) {
    if (!IsFailure(row.state) && row.state != CellState::kUnsupported) continue;
    text += fmt::format("{}{}: {}{}", text.empty() ? "" : "; ", SegmentText(row.axes),
                        NameOf(row.state), row.reason.empty() ? "" : ": " + row.reason);
  }
  return text;
}

// "gla lr=0.01 seed 3", "gla throughput".
std::string NameInTask(const CellResult& cell) {
  const CellName name = SplitCellName(cell.name);
  std::string text = name.mixer + (name.variant.empty() ? "" : " " + name.variant);
  if (cell.kind != "train") text += " " + cell.kind;
  if (cell.kind != "throughput") text += " seed " + std::to_string(cell.seed);
  return text;
}

// "completed at step 400, validation accuracy 0.991", "oom: 3 GiB were wanted".
std::string Outcome(const CellResult& cell) {
  std::string text(NameOf(cell.state));
  if (const std::string reason = ReasonOf(cell); !reason.empty()) text += ": " + reason;
  const std::string step = fmt::format(" step {}", cell.step);
  const bool is_told = cell.reason.ends_with(step);  // "loss is not finite at step 5"
  if (cell.step > 0 && !is_told) text += " at" + step;
  const auto scored = std::find_if(
      cell.learning_curve.rbegin(), cell.learning_curve.rend(),
      [](const LearningPoint& point) { return point.validation_accuracy.has_value(); });
  if (scored == cell.learning_curve.rend()) return text;
  return text + fmt::format(", validation accuracy {:.3f}", *scored->validation_accuracy);
}

// "12 cells: 11 completed, 1 oom".
std::string CountsText(const SweepReport& report) {
  std::map<CellState, std::int64_t> counts;
  for (const CellResult& cell : report.cells) ++counts[cell.state];
  std::string text =
      fmt::format("{} cell{}", report.cells.size(), report.cells.size() == 1 ? "" : "s");
  const char* before = ": ";
  for (const auto& [state, count] : counts) {
    text += fmt::format("{}{} {}", before, count, NameOf(state));
    before = ", ";
  }
  return text;
}

constexpr const char* kHeader = "| suite | cell | seed | state | reason |\n|---|---|---|---|---|\n";

std::string RowText(const SweepReport& report, const CellResult& cell) {
  return fmt::format("| {} | {} | {} | {} | {} |\n", io::EscapeMarkdown(report.name),
                     io::EscapeMarkdown(cell.name), cell.seed, NameOf(cell.state),
                     io::EscapeMarkdown(ReasonOf(cell)));
}

}  // namespace

std::string RenderCellsJUnit(std::span<const SweepReport> reports,
                             std::span<const std::string> not_begun) {
  const bool is_collection = reports.size() + not_begun.size() > 1;
  std::vector<JUnitCase> cases;
  std::string started;
  for (const SweepReport& report : reports) {
    for (const CellResult& cell : report.cells) {
      if (!cell.started.empty()) {
        started = started.empty() ? cell.started : std::min(started, cell.started);
      }
      const std::string task = SplitCellName(cell.name).task;
      cases.push_back({.suite = is_collection ? report.name + "/" + task : task,
                       .name = NameInTask(cell),
                       .seconds = std::isnan(cell.wall_s) ? 0 : cell.wall_s,
                       .outcome = OutcomeOf(cell),
                       .message = Outcome(cell),
                       .type = std::string(NameOf(WorstOf(cell))),
                       .details = ReasonOf(cell),
                       .properties = {{"run_id", cell.run_id}}});
    }
  }
  for (const std::string& suite : not_begun) {
    cases.push_back({.suite = suite,
                     .name = "all cells",
                     .outcome = CaseOutcome::kSkipped,
                     .message = "the suite has not begun"});
  }
  return RenderJUnitXml("mixerbench.run", started, cases);
}

std::string RenderRunSummary(std::span<const SweepReport> reports, ExitCode code,
                             const std::string& pages, std::span<const std::string> not_begun,
                             std::size_t max_bytes) {
  std::string text = "## mixerbench run\n\n";
  for (const SweepReport& report : reports) {
    text += fmt::format("- **{}**: {}\n", io::EscapeMarkdown(report.name), CountsText(report));
  }
  for (const std::string& suite : not_begun) {
    text += fmt::format("- **{}**: has not begun\n", io::EscapeMarkdown(suite));
  }
  text += fmt::format("\nExit code {}.\n", static_cast<int>(code));
  std::size_t num_rows = 0, num_left_out = 0;
  constexpr std::size_t kReserve = 200;  // for the line that says what was left out
  for (const SweepReport& report : reports) {
    for (const CellResult& cell : report.cells) {
      if (IsWhole(cell)) continue;
      if (num_rows++ == 0) text += std::string("\n### Cells that did not complete\n\n") + kHeader;
      const std::string row = RowText(report, cell);
      if (text.size() + row.size() + kReserve > max_bytes) {
        ++num_left_out;
      } else {
        text += row;
      }
    }
  }
  if (num_left_out > 0) text += fmt::format("\n{} more are in the report.\n", num_left_out);
  const std::string folded = "\n<details><summary>Report</summary>\n\n" + pages + "\n</details>\n";
  return text.size() + folded.size() <= max_bytes ? text + folded : text;
}

std::string RenderRunAnnotations(std::span<const SweepReport> reports) {
  std::string text;
  std::size_t count = 0;
  for (const SweepReport& report : reports) {
    for (const CellResult& cell : report.cells) {
      if (OutcomeOf(cell) != CaseOutcome::kError || count++ >= kMaxAnnotations) continue;
      text += Annotation("error", fmt::format("{}: {}", NameOf(WorstOf(cell)), cell.name),
                         NameInTask(cell) + ": " + Outcome(cell));
    }
  }
  return text;
}

}  // namespace mixerbench::reports
