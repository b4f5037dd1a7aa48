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

std::string Subheading(const TableView& table) {
  return table.setting.empty() ? "" : "### " + EscapeMarkdown(table.setting) + "\n\n";
}

std::string AccuracyCell(const AccuracyOverSeeds* row) {
  if (row == nullptr) return "–";
  const AccuracyText text = TextOf(*row);
  return text.value + (text.seeds.empty() ? "" : " (" + text.seeds + ")") +
         (text.interval.empty() ? "" : " [" + text.interval + "]");
}

std::string SolvedCell(const std::optional<SolveRate>& rate) {
  const SolvedText text = TextOf(rate);
  return rate ? text.count + " [" + text.interval + "]" : "–";
}

// A row of the table that belongs to no group: `name`, and a share for each segment.
std::string ReferenceRow(const std::string& name, const std::vector<std::optional<double>>& shares,
                         std::size_t num_before, std::size_t num_after) {
  std::vector<std::string> row(num_before);
  row.front() = "*" + EscapeMarkdown(name) + "*";
  for (const auto& share : shares) row.push_back(share ? "*" + FormatPercent(*share) + "*" : "");
  row.resize(row.size() + num_after);
  return Row(row);
}

std::string AccuracyTable(const TaskView& view) {
  const auto segments = WholeSegments(view);
  const bool has_choice = !view.chosen.empty();
  std::vector<std::string> header = {"mixer"};
  if (has_choice) header.push_back("chosen");
  header.push_back("solved");
  const std::size_t num_before = header.size();
  std::vector<std::optional<double>> ceilings;
  for (const AccuracyOverSeeds* segment : segments) {
    header.push_back(EscapeMarkdown(AxesText(segment->axes)) + (segment->extrapolated ? " ⤳" : ""));
    ceilings.push_back(CeilingOf(view, segment->axes));
  }
  const std::vector<std::string> facts = {"steps", "effective length", "states"};
  header.insert(header.end(), facts.begin(), facts.end());

  std::string out = Header(header);
  for (const GroupSummary* group : view.groups) {
    std::vector<std::string> row = {EscapeMarkdown(GroupLabel(view, *group))};
    if (has_choice) row.push_back(EscapeMarkdown(ChosenText(view, *group)));
    row.push_back(SolvedCell(group->solve_rate));
    for (const AccuracyOverSeeds* segment : segments) {
      row.push_back(AccuracyCell(FindWhole(*group, segment->axes)));
    }
    row.push_back(group->steps_to_threshold && group->steps_to_threshold->median
                      ? fmt::format("{:.0f}", *group->steps_to_threshold->median)
                      : "–");
    row.push_back(group->effective_length && group->effective_length->median
                      ? std::to_string(*group->effective_length->median)
                      : "–");
    row.push_back(EscapeMarkdown(StatesText(*group)));
    out += Row(row);
  }
  for (const GuessRow& guess : GuessRows(segments)) {
    out += ReferenceRow(guess.name, guess.accuracy, num_before, facts.size());
  }
  const bool any_ceiling = std::any_of(ceilings.begin(), ceilings.end(),
                                       [](const auto& ceiling) { return ceiling.has_value(); });
  if (any_ceiling) out += ReferenceRow("ceiling", ceilings, num_before, facts.size());
  return out + "\n";
}

std::string AccuracyTables(const SweepReport& report, const TaskView& view) {
  std::string out = fmt::format("## {}\n\n{}\n\n", EscapeMarkdown(view.task),
                                EscapeMarkdown(AccuracyCaption(report, view)));
  for (const TableView& table : TablesOf(view)) {
    out += Subheading(table) + AccuracyTable(table.view);
  }
  return out;
}

std::string ThroughputRows(const SweepReport& report, const TaskView& view) {
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
  return rows;
}

std::string ThroughputTables(const SweepReport& report, const TaskView& view) {
  std::string tables;
  for (const TableView& table : TablesOf(view)) {
    const std::string rows = ThroughputRows(report, table.view);
    if (rows.empty()) continue;
    tables += Subheading(table) +
              Header({"mixer", "phase", "batch", "seq\\_len", "dtype", "median ms", "20–80 % ms",
                      "tokens/s", "peak memory", "parity"}) +
              rows + "\n";
  }
  return tables.empty() ? "" : fmt::format("## {}: speed\n\n", EscapeMarkdown(view.task)) + tables;
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
  std::string speed;
  for (const TaskView& view : TaskViews(report)) {
    if (view.kind != "throughput") out += AccuracyTables(report, view);
    speed += ThroughputTables(report, view);
  }
  return out + speed + TimeTable(report) + PlanTable(report) + Failures(report);
}

}  // namespace mixerbench::reports
