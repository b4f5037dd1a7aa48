// SPDX-License-Identifier: Apache-2.0
#include "reports/markdown.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <vector>

#include "reports/labels.h"
#include "reports/plan_table.h"
#include "reports/text.h"
#include "reports/time_table.h"

namespace mixerbench::reports {
namespace {

std::string Row(const std::vector<std::string>& cells) {
  std::string row = "|";
  for (const std::string& cell : cells) row += " " + cell + " |";
  return row + "\n";
}

std::string Header(const std::vector<std::string>& cells) {
  std::string rule = "|";
  for (std::size_t i = 0; i < cells.size(); ++i) rule += i == 0 ? " :-- |" : " --: |";
  return Row(cells) + rule + "\n";
}

std::string AccuracyCell(const AccuracyOverSeeds* row) {
  if (row == nullptr) return "–";
  if (!row->mean) return std::string(NameOf(row->state));
  return FormatPercentInterval(*row->mean, row->ci_seeds) + (AnyImputed(*row) ? " †" : "");
}

std::string AccuracyTable(const SweepReport& report, const TaskView& view) {
  const auto segments = WholeSegments(view);
  std::vector<std::string> header = {"mixer"};
  std::vector<std::string> chance = {"*chance*"};
  std::vector<std::string> ceiling = {"*ceiling*"};
  bool any_extrapolated = false;
  bool any_ceiling = false;
  for (const AccuracyOverSeeds* segment : segments) {
    header.push_back(EscapeMarkdown(AxesText(segment->axes)) + (segment->extrapolated ? " ⤳" : ""));
    chance.push_back("*" + FormatPercent(segment->chance) + "*");
    const std::optional<double> highest = CeilingOf(view, segment->axes);
    ceiling.push_back(highest ? "*" + FormatPercent(*highest) + "*" : "");
    any_extrapolated = any_extrapolated || segment->extrapolated;
    any_ceiling = any_ceiling || highest;
  }
  header.insert(header.end(), {"solved", "steps", "seeds", "states"});
  chance.insert(chance.end(), {"", "", "", ""});
  ceiling.insert(ceiling.end(), {"", "", "", ""});

  std::string out = fmt::format("## {}\n\nAccuracy of scored positions, percent, mean over seeds",
                                EscapeMarkdown(view.task));
  out += " with its 95 % interval. † a failed seed counts as chance.";
  if (any_extrapolated) out += " ⤳ longer than anything trained on.";
  if (any_ceiling) out += " Ceiling: the answers that the training data tell.";
  out += " Fewer than 5 seeds: the interval is not reliable.";
  out += SelectionText(report) + "\n\n" + Header(header);
  for (const GroupSummary* group : view.groups) {
    std::vector<std::string> row = {EscapeMarkdown(GroupLabel(view, *group))};
    for (const AccuracyOverSeeds* segment : segments) {
      row.push_back(AccuracyCell(FindWhole(*group, segment->axes)));
    }
    row.push_back(group->solve_rate ? fmt::format("{}/{}", group->solve_rate->num_solved,
                                                  group->solve_rate->num_seeds)
                                    : "–");
    row.push_back(group->steps_to_threshold && group->steps_to_threshold->median
                      ? fmt::format("{:.0f}", *group->steps_to_threshold->median)
                      : "–");
    row.push_back(std::to_string(group->seeds.size()));
    row.push_back(EscapeMarkdown(StatesText(*group)));
    out += Row(row);
  }
  return out + Row(chance) + (any_ceiling ? Row(ceiling) : "") + "\n";
}

std::string ThroughputTable(const SweepReport& report, const TaskView& view) {
  std::string rows;
  for (const GroupSummary* group : view.groups) {
    for (const CellResult& cell : CellsOf(report, *group)) {
      for (const ThroughputRow& row : cell.throughput) {
        rows += Row(
            {EscapeMarkdown(GroupLabel(view, *group)), EscapeMarkdown(row.phase),
             std::to_string(row.batch_size), std::to_string(row.seq_len), EscapeMarkdown(row.dtype),
             row.median_ms ? fmt::format("{:#.4g}", *row.median_ms)
                           : std::string(NameOf(row.state)),
             row.spread_ms ? fmt::format("{:#.4g}–{:#.4g}", row.spread_ms->low, row.spread_ms->high)
                           : "–",
             row.tokens_per_second ? FormatSi(*row.tokens_per_second) : "–",
             row.peak_memory_bytes ? FormatBytes(*row.peak_memory_bytes) : "–",
             EscapeMarkdown(ParityText(row))});
      }
    }
  }
  if (rows.empty()) return "";
  return fmt::format("## {}: speed\n\n", EscapeMarkdown(view.task)) +
         Header({"mixer", "phase", "batch", "seq\\_len", "dtype", "median ms", "20–80 % ms",
                 "tokens/s", "peak memory", "parity"}) +
         rows + "\n";
}

std::string TimeTable(const SweepReport& report) {
  const std::vector<TimeRow> times = TimesByMixer(report);
  if (times.empty()) return "";
  std::string rows;
  for (const TimeRow& row : times) {
    std::vector<std::string> fields = TimeFields(row);
    for (std::string& field : fields) field = EscapeMarkdown(field);
    rows += Row(fields);
  }
  return fmt::format("## Where the time went\n\n{}\n\n", kTimeCaption) + Header(TimeColumns()) +
         rows + "\n";
}

std::string PlanTable(const SweepReport& report) {
  const std::vector<PlanTableRow> plans = PlansByMixer(report);
  if (plans.empty()) return "";
  std::string rows;
  for (const PlanTableRow& row : plans) {
    std::vector<std::string> fields = PlanFields(row);
    for (std::string& field : fields) field = EscapeMarkdown(field);
    rows += Row(fields);
  }
  return fmt::format("## What ran\n\n{}\n\n", kPlanCaption) + Header(PlanColumns()) + rows + "\n";
}

std::string Failures(const SweepReport& report) {
  std::string lines;
  for (const CellResult& cell : report.cells) {
    if (cell.state == CellState::kCompleted) continue;
    lines += fmt::format("- {}, seed {}: **{}**{}\n", EscapeMarkdown(cell.name), cell.seed,
                         NameOf(cell.state),
                         cell.reason.empty() ? "" : ": " + EscapeMarkdown(cell.reason));
  }
  return lines.empty() ? "" : "## Cells that did not complete\n\n" + lines + "\n";
}

}  // namespace

std::string RenderMarkdown(const SweepReport& report) {
  std::string out = "# " + EscapeMarkdown(report.name) + "\n\n";
  for (const std::string& note : PlanNotes(report)) {
    out += "**" + EscapeMarkdown(note) + "**\n\n";
  }
  for (const TaskView& view : TaskViews(report)) {
    if (view.kind != "throughput") out += AccuracyTable(report, view);
    out += ThroughputTable(report, view);
  }
  return out + TimeTable(report) + PlanTable(report) + Failures(report);
}

}  // namespace mixerbench::reports
