// SPDX-License-Identifier: Apache-2.0
#include "gate/render/comparison_tables.h"

#include <cmath>
#include <fmt/format.h>
#include <initializer_list>
#include <string_view>

#include "gate/render/row_text.h"
#include "reports/view/cell_parts.h"
#include "reports/view/datums.h"
#include "reports/view/numbers.h"
#include "reports/view/tables.h"

namespace mixerbench::gate {
namespace {

using reports::Axis;
using reports::Column;
using reports::Datum;
using reports::IntervalPlot;
using reports::Table;
using reports::TextDatum;
using ReportRow = reports::Row;

constexpr const char* kInJson = "also in the JSON of --verdict";

Datum Number(std::optional<double> value, std::string text, std::string sub = "") {
  Datum datum = TextDatum(std::move(text), std::move(sub));
  datum.value = value;
  return datum;
}

Datum Word(const Row& row) {
  Datum datum = TextDatum(VerdictWord(row.verdict));
  datum.verdict = std::string(NameOf(row.verdict));
  return datum;
}

// A row that begins with the mixer, what differs in its setting, the task and `more` below it.
ReportRow NamedRow(const CellLabels& labels, const std::string& cell,
                   const std::string& more = "") {
  const CellLabel label = labels.Of(cell);
  Datum name = TextDatum(label.name, Joined(Joined(label.setting, label.task), more));
  if (label.name != cell) name.note = cell;
  return {.mixer = label.mixer, .cells = {std::move(name)}};
}

// The same for a verdict: with its sign before the name and its word in the second column.
ReportRow JudgedRow(const CellLabels& labels, const Row& row, const std::string& more = "") {
  ReportRow out = NamedRow(labels, row.cell, more);
  out.cells.front().verdict = std::string(NameOf(row.verdict));
  out.cells.push_back(Word(row));
  return out;
}

void Add(ReportRow row, std::initializer_list<Datum> cells, Table& table) {
  row.cells.insert(row.cells.end(), cells);
  table.Add(std::move(row));
}

// --- interval plots
// -------------------------------------------------------------------------------

Axis RatioAxis() {
  return {.label = "new / base",
          .scale = Axis::Scale::kLog,
          .low = 0.33,
          .high = 2.2,
          .ticks = {{0.5, "×0.5"}, {1, "×1"}, {2, "×2"}}};
}

Axis ChangeAxis() {
  return {.label = "new against base",
          .scale = Axis::Scale::kLinear,
          .low = -0.08,
          .high = 0.08,
          .ticks = {{-0.06, "−6 %"}, {-0.03, "−3"}, {0, "0"}, {0.03, "+3"}, {0.06, "+6 %"}}};
}

Axis PointsAxis() {
  return {.label = "new − base, points",
          .scale = Axis::Scale::kLinear,
          .low = -0.06,
          .high = 0.06,
          .ticks = {{-0.04, "−4"}, {-0.02, "−2"}, {0, "0"}, {0.02, "+2"}, {0.04, "+4"}}};
}

// Shaded is what the margin tolerates, and everything better.
Datum Plot(const Row& row, const Axis& axis) {
  Datum datum = TextDatum("");
  datum.verdict = std::string(NameOf(row.verdict));
  const Effect& effect = row.effect;
  if (effect.kind == EffectKind::kNone || !effect.low || !effect.high) return datum;
  const double margin = row.margin.value_or(0);
  const bool more_is_better = effect.kind == EffectKind::kPoints;
  IntervalPlot plot{.low = *effect.low, .high = *effect.high, .value = effect.value};
  plot.zero = effect.kind == EffectKind::kRatio ? 1 : 0;
  plot.zone_low = more_is_better ? -margin : axis.low;
  plot.zone_high = more_is_better ? axis.high : margin;
  datum.plot = plot;
  return datum;
}

Column PlotColumn(const std::string& label, const Axis& axis) {
  Column column{.label = label, .kind = Column::Kind::kPlot};
  column.axis = axis;
  return column;
}

Column VerdictColumn() { return {.label = "Verdict", .kind = Column::Kind::kVerdict}; }

Column TextColumn(const std::string& label, bool wraps = false) {
  return {.label = label, .kind = Column::Kind::kText, .wraps = wraps};
}

Column NumberColumn(const std::string& label, const std::string& unit = "") {
  return {.label = label, .kind = Column::Kind::kNumber, .unit = unit};
}

// Rows of these metrics, in the order of the comparison: what fails first.
std::vector<const Row*> RowsOf(const Comparison& comparison,
                               std::initializer_list<std::string_view> metrics) {
  std::vector<const Row*> rows;
  for (const Row& row : comparison.rows) {
    for (const std::string_view metric : metrics) {
      if (row.metric == metric) rows.push_back(&row);
    }
  }
  return rows;
}

Datum Seen(const Row& row) { return Number(row.would_have_seen, row.would_have_seen_text); }

Datum P(const Row& row) {
  const auto& p = row.p_adjusted ? row.p_adjusted : row.p_raw;
  Datum datum = Number(p, PText(p));
  if (row.p_sign_flip) datum.note = "sign-flip p " + PText(row.p_sign_flip);
  return datum;
}

Datum EffectDatum(const Row& row) {
  return Number(
      row.effect.kind == EffectKind::kNone ? std::nullopt : std::optional(row.effect.value),
      EffectValueText(row), EffectIntervalText(row));
}

std::string LevelText(const Row* row) {
  return row == nullptr ? "interval" : fmt::format("{:.0f} % interval", 100 * row->effect.level);
}

// "5,194 → 7,840".
std::string StepsText(const Row& row) {
  if (!row.base_value || !row.candidate_value) return ValuesText(row);
  return reports::Count(*row.base_value) + " → " + reports::Count(*row.candidate_value);
}

}  // namespace

Table DecidingTable(const Comparison& comparison, const CellLabels& labels) {
  Table table{.key = "decides",
              .title = "Every row that is not a pass.",
              .note = "Failures first. The same lines go to the job summary and to JUnit.",
              .columns = {TextColumn("What"), VerdictColumn(), TextColumn("Effect"),
                          TextColumn("Margin"), TextColumn("In words", true)},
              .rows = {}};
  table.is_stacked = true;
  for (const Row* row : DecidingRows(comparison)) {
    ReportRow judged = JudgedRow(labels, *row);
    std::string& sub = judged.cells.front().sub;
    sub = Joined(WhatText(*row), sub);
    Add(std::move(judged),
        {TextDatum(EffectText(*row)), TextDatum(MarginText(*row)), TextDatum(row->say)}, table);
  }
  return table;
}

Table StepsTable(const Comparison& comparison, const CellLabels& labels) {
  Table table{.key = "steps",
              .title = "Speed of learning (G3).",
              .note =
                  "Paired by seed. Shaded: inside the margin. Pass: the one-sided bound is "
                  "inside. Regression: the bound is above ×1 and the mean outside the margin. "
                  "Neither: inconclusive.",
              .columns = {TextColumn("Mixer, task"), VerdictColumn(),
                          PlotColumn("Steps, new / base", RatioAxis()),
                          NumberColumn("Ratio", "95 % interval"),
                          NumberColumn("Median steps", "base → new"),
                          NumberColumn("p", fmt::format("Holm, {} rows", comparison.num_headlines)),
                          NumberColumn("Would have seen", "8 times in 10")},
              .rows = {}};
  for (const Row* row : RowsOf(comparison, {"steps_to_threshold"})) {
    Add(JudgedRow(labels, *row),
        {Plot(*row, RatioAxis()), EffectDatum(*row), Number(row->candidate_value, StepsText(*row)),
         P(*row), Seen(*row)},
        table);
  }
  return table;
}

Table SolveRateTable(const Comparison& comparison, const CellLabels& labels) {
  Table table{.key = "solved",
              .title = "Solved seeds (G3).",
              .note =
                  "Seeds whose validation accuracy reached the threshold; Fisher's exact test, "
                  "one-sided.",
              .columns = {TextColumn("Mixer, task"), VerdictColumn(),
                          NumberColumn("Solved", "base → new"), NumberColumn("p", "Holm"),
                          NumberColumn("Would have seen"), TextColumn("In words", true)},
              .rows = {}};
  for (const Row* row : RowsOf(comparison, {"solve_rate"})) {
    Add(JudgedRow(labels, *row),
        {Number(row->candidate_value, ValuesText(*row)), P(*row), Seen(*row), TextDatum(row->say)},
        table);
  }
  return table;
}

Table AccuracyTable(const Comparison& comparison, const CellLabels& labels) {
  Table table{.key = "accuracy",
              .title = "Accuracy on the test set (G3).",
              .note =
                  "Percentage points, paired by seed; the margin is shaded. Settings that are "
                  "solved are judged by solve rate and steps, and by the accuracy of the seeds "
                  "that solve them on both sides, because a mean over solved and unsolved seeds "
                  "describes no run.",
              .columns = {TextColumn("Mixer, task"), VerdictColumn(),
                          PlotColumn("New − base, points", PointsAxis()),
                          NumberColumn("Difference", "95 % interval"),
                          NumberColumn("Accuracy", "base → new"), NumberColumn("p", "Holm"),
                          NumberColumn("Would have seen", "8 times in 10")},
              .rows = {}};
  for (const Row* row : RowsOf(comparison, {"accuracy", kAccuracyWhenSolved})) {
    Add(JudgedRow(labels, *row),
        {Plot(*row, PointsAxis()), EffectDatum(*row),
         Number(row->candidate_value, ValuesText(*row)), P(*row), Seen(*row)},
        table);
  }
  return table;
}

Table TimeTable(const Comparison& comparison, const CellLabels& labels) {
  const std::vector<const Row*> rows = RowsOf(comparison, {"time"});
  Table table{
      .key = "time",
      .title = "Time (G4).",
      .note =
          "Median of the ratios of pairs of processes, base and new in turn on one "
          "device. A regression is beyond the margin with its bound above 0, twice, in "
          "fresh pairs.",
      .columns = {TextColumn("Mixer, shape"), VerdictColumn(),
                  PlotColumn("Time, new against base", ChangeAxis()),
                  NumberColumn("Change", LevelText(rows.empty() ? nullptr : rows.front())),
                  NumberColumn("Time", "base → new"),
                  NumberColumn("Would have seen", "8 times in 10"), TextColumn("In words", true)},
      .rows = {}};
  for (const Row* row : rows) {
    Add(JudgedRow(labels, *row, row->where),
        {Plot(*row, ChangeAxis()), EffectDatum(*row),
         Number(row->candidate_value, ValuesText(*row)), Seen(*row), TextDatum(row->say)},
        table);
  }
  return table;
}

Table ResourceTable(const Comparison& comparison, const CellLabels& labels) {
  Table table{.key = "resources",
              .title = "Memory, state and capture (G4).",
              .note = "One run is enough: these hardly vary.",
              .columns = {TextColumn("Mixer, shape"), VerdictColumn(), TextColumn("Of"),
                          NumberColumn("Change"), NumberColumn("Amount", "base → new"),
                          NumberColumn("Margin")},
              .rows = {}};
  for (const Row* row :
       RowsOf(comparison, {"peak_memory_bytes", "state_bytes", "capture_seconds"})) {
    Add(JudgedRow(labels, *row, row->where),
        {TextDatum(MetricText(*row)), EffectDatum(*row),
         Number(row->candidate_value, ValuesText(*row)), Number(row->margin, MarginText(*row))},
        table);
  }
  return table;
}

Table ExactTable(const Comparison& comparison, const CellLabels& labels) {
  Table table{.key = "exact",
              .title = "Exact gates (G0 to G2).",
              .note = "Data, parity of what is timed, and the first training steps.",
              .columns = {TextColumn("Mixer, task"), VerdictColumn(), TextColumn("Gate"),
                          TextColumn("Result"), TextColumn("In words", true)},
              .rows = {}};
  table.is_stacked = true;
  for (const Row* row : RowsOf(comparison, {"data", "parity", "replay"})) {
    Add(JudgedRow(labels, *row),
        {TextDatum(std::string(NameOf(row->gate)) + " " + row->metric), TextDatum(row->candidate),
         TextDatum(row->say)},
        table);
  }
  return table;
}

Table SegmentTable(const Comparison& comparison, const CellLabels& labels) {
  const auto seeds = [](const std::vector<std::optional<double>>& accuracy) {
    std::string text;
    for (const auto& value : accuracy) {
      text += (text.empty() ? "" : " ") + (value ? fmt::format("{:.1f}", 100 * *value) : kNoText);
    }
    return text;
  };
  Table table{
      .key = "segments",
      .title = "Accuracy of every segment.",
      .note = "Percent, by seed: base, below it new.",
      .columns = {TextColumn("Mixer, task"), TextColumn("Segment"),
                  NumberColumn("Difference", "points, 95 % interval"), TextColumn("By seed, %")},
      .rows = {}};
  table.is_long = true;
  table.elsewhere = kInJson;
  table.summary = fmt::format("All {} segments", comparison.details.size());
  for (const Detail& detail : comparison.details) {
    Row effect;
    effect.effect = {EffectKind::kPoints, detail.difference.value_or(0), detail.low, detail.high,
                     0.95};
    const std::string segment = reports::SegmentText(detail.axes);
    Add(NamedRow(labels, detail.cell),
        {TextDatum(segment.empty() ? "test" : segment),
         detail.difference ? EffectDatum(effect) : TextDatum(""),
         TextDatum(seeds(detail.base), seeds(detail.candidate))},
        table);
  }
  return table;
}

Table NamesTable(const CellLabels& labels) {
  Table table{.key = "names",
              .title = "Full names.",
              .note = "As in the reports, the JSON and JUnit.",
              .columns = {TextColumn("Mixer"), TextColumn("Name", true)},
              .rows = {}};
  table.is_long = true;
  table.elsewhere = kInJson;
  table.summary = fmt::format("Full names of all {} cells", labels.names().size());
  for (const std::string& name : labels.names()) {
    Datum code = TextDatum(name);
    code.is_code = true;
    Add(NamedRow(labels, name), {std::move(code)}, table);
  }
  return table;
}

}  // namespace mixerbench::gate
