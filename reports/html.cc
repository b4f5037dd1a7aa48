// SPDX-License-Identifier: Apache-2.0
#include "reports/html.h"

#include <algorithm>
#include <fmt/format.h>
#include <initializer_list>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "reports/charts.h"
#include "reports/json.h"
#include "reports/labels.h"
#include "reports/page_style.h"
#include "reports/plan_table.h"
#include "reports/result_json.h"
#include "reports/svg.h"
#include "reports/text.h"
#include "reports/time_table.h"

namespace mixerbench::reports {
namespace {

std::string Element(std::string_view name, const std::string& content,
                    std::string_view css_class = "") {
  return css_class.empty() ? fmt::format("<{0}>{1}</{0}>", name, content)
                           : fmt::format("<{0} class=\"{2}\">{1}</{0}>", name, content, css_class);
}

// `span` is a row above the header, for names that several columns share.
std::string Table(const std::vector<std::string>& header, const std::string& rows,
                  const std::string& span = "", std::string_view css_class = "numbers") {
  std::string head;
  for (const std::string& cell : header) head += Element("th", cell);
  return fmt::format("<div class=\"scroll\"><table class=\"{}\"><thead>", css_class) + span +
         "<tr>" + head + "</tr></thead><tbody>\n" + rows + "</tbody></table></div>\n";
}

std::string TableRow(const std::vector<std::string>& cells, std::string_view css_class = "") {
  std::string row;
  for (const std::string& cell : cells) row += Element("td", cell);
  return Element("tr", row, css_class) + "\n";
}

std::string Pill(CellState state) {
  const std::string_view mood = state == CellState::kCompleted ? "ok"
                                : IsFailure(state)             ? "bad"
                                                               : "idle";
  return fmt::format("<span class=\"pill {}\">{}</span>", mood, NameOf(state));
}

// The text at a path of nested objects, or "".
std::string TextAt(const Value& value, std::initializer_list<std::string_view> path) {
  const Value* at = &value;
  for (const std::string_view key : path) {
    at = at->Find(key);
    if (at == nullptr) return "";
  }
  if (at->is_string()) return at->as_string();
  return at->is_null() ? "" : DumpJson(*at);
}

// The distinct texts that `read` finds in the cells, in order, joined.
template <typename Read>
std::string Distinct(const SweepReport& report, Read read) {
  std::set<std::string> texts;
  for (const CellResult& cell : report.cells) {
    if (const std::string text = read(cell); !text.empty()) texts.insert(text);
  }
  std::string joined;
  for (const std::string& text : texts) joined += (joined.empty() ? "" : ", ") + text;
  return joined;
}

std::string Fact(std::string_view term, const std::string& text) {
  if (text.empty()) return "";
  return fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", term, EscapeHtml(text));
}

std::string Versions(const CellResult& cell) {
  const Value& environment = cell.environment;
  std::string text;
  for (const auto& [name, version] :
       {std::pair<std::string, std::string>{"mixerbench", TextAt(environment, {"tool", "version"})},
        {"libtorch", TextAt(environment, {"libtorch"})},
        {"CUDA", TextAt(environment, {"cuda_runtime"})}}) {
    if (!version.empty()) text += (text.empty() ? "" : " · ") + name + " " + version;
  }
  return text;
}

std::string Device(const CellResult& cell) {
  const std::string gpu = TextAt(cell.environment, {"gpu", "name"});
  return gpu.empty() ? TextAt(cell.environment, {"cpu", "model"}) : gpu;
}

// "2026-11-21T08:00:00Z" -> "2026-11-21 08:00 UTC"; anything else as it is.
std::string ReadableTime(const std::string& iso) {
  if (iso.size() < 17 || iso[10] != 'T') return iso;
  return iso.substr(0, 10) + " " + iso.substr(11, 5) + " UTC";
}

std::string Header(const SweepReport& report) {
  std::map<CellState, int> states;
  std::string first_start;
  for (const CellResult& cell : report.cells) {
    ++states[cell.state];
    if (!cell.started.empty() && (first_start.empty() || cell.started < first_start)) {
      first_start = cell.started;
    }
  }
  std::string counts;
  for (const auto& [state, count] : states) {
    counts += fmt::format("{}{} {}", counts.empty() ? "" : " · ", count, Pill(state));
  }
  std::string notes;
  for (const std::string& note : PlanNotes(report)) notes += Fact("Note", note);
  return "<header>\n<p class=\"eyebrow\">mixerbench report</p>\n" +
         Element("h1", EscapeHtml(report.name)) + "\n<dl class=\"facts\">\n" +
         Fact("Started", ReadableTime(first_start)) + Fact("Device", Distinct(report, Device)) +
         Fact("Software", Distinct(report, Versions)) +
         Fact("Source",
              Distinct(
                  report,
                  [](const CellResult& cell) {
                    const std::string commit = TextAt(cell.environment, {"tool", "git_commit"});
                    const bool dirty = TextAt(cell.environment, {"tool", "git_dirty"}) == "true";
                    return commit.substr(0, 12) + (dirty ? " (modified)" : "");
                  })) +
         fmt::format("<div><dt>Cells</dt><dd>{}</dd></div>\n", counts) + notes +
         "</dl>\n</header>\n";
}

std::string ChartGrid(const std::vector<Chart>& charts, std::string_view css_class = "charts") {
  std::string drawn;
  for (const Chart& chart : charts) drawn += RenderChart(chart);
  return drawn.empty() ? "" : Element("div", "\n" + drawn, css_class) + "\n";
}

std::string Name(const TaskView& view, const GroupSummary& group, const Styles& styles) {
  const std::string label = GroupLabel(view, group);
  return RenderSwatch(styles.at(label)) + EscapeHtml(label);
}

std::string Legend(const TaskView& view, const Styles& styles) {
  std::string items;
  for (const GroupSummary* group : view.groups) {
    if (!group->accuracy.empty()) items += Element("li", Name(view, *group, styles));
  }
  return Element("ul", items, "legend") + "\n";
}

// "99.8" over its smaller print.
std::string Stacked(std::string text, const std::vector<std::string>& small) {
  for (const std::string& line : small) {
    if (!line.empty()) text += Element("small", line);
  }
  return text;
}

std::string Bracketed(const std::string& interval) {
  return interval.empty() ? "" : "[" + interval + "]";
}

std::string AccuracyCell(const AccuracyOverSeeds* row) {
  if (row == nullptr) return "–";
  if (!row->mean) return Pill(row->state);
  const AccuracyText text = TextOf(*row);
  return Stacked(text.value,
                 {text.seeds.empty() ? "" : "(" + text.seeds + ")", Bracketed(text.interval)});
}

std::string AxisNames(const std::vector<const AccuracyOverSeeds*>& segments) {
  std::string names;
  for (const auto& [axis, value] : segments.front()->axes) {
    names += (names.empty() ? "" : " / ") + EscapeHtml(axis);
  }
  return names;
}

std::string AxisValues(const AccuracyOverSeeds& segment) {
  std::string values;
  for (const auto& [axis, value] : segment.axes) {
    values += (values.empty() ? "" : " / ") +
              EscapeHtml(value.is_string() ? value.as_string() : DumpJson(value));
  }
  return values + (segment.extrapolated ? " ⤳" : "");
}

// A row of the table that belongs to no group: `name`, and a share for each segment.
std::string ReferenceRow(const std::string& name, const std::vector<std::optional<double>>& shares,
                         std::size_t num_before, std::size_t num_after) {
  std::vector<std::string> row(num_before);
  row.front() = EscapeHtml(name);
  for (const auto& share : shares) row.push_back(share ? FormatPercent(*share) : "");
  row.resize(row.size() + num_after);
  return TableRow(row, "chance");
}

// Steps, effective length, parameters and state.
std::vector<std::string> Facts(const SweepReport& report, const GroupSummary& group) {
  ModelFacts model;
  for (const CellResult& cell : CellsOf(report, group)) {
    if (cell.model.num_parameters > 0) model = cell.model;
  }
  return {group.steps_to_threshold && group.steps_to_threshold->median
              ? fmt::format("{:.0f}", *group.steps_to_threshold->median)
              : "–",
          group.effective_length && group.effective_length->median
              ? std::to_string(*group.effective_length->median)
              : "–",
          model.num_parameters > 0 ? FormatSi(static_cast<double>(model.num_parameters)) : "–",
          model.state_at_num_tokens > 0 ? FormatBytes(model.state_bytes_measured) : "–"};
}

// The name of each group of a table, with the swatch of its line in the charts of the task.
using Names = std::map<const GroupSummary*, std::string>;

Names NamesOf(const TaskView& task, const TaskView& table, const Styles& styles) {
  Names names;
  for (const GroupSummary* group : table.groups) {
    names[group] =
        RenderSwatch(styles.at(GroupLabel(task, *group))) + EscapeHtml(GroupLabel(table, *group));
  }
  return names;
}

std::string Subheading(const TableView& table) {
  return table.setting.empty() ? "" : Element("h3", EscapeHtml(table.setting)) + "\n";
}

std::string SummaryTable(const SweepReport& report, const TaskView& view, const Names& names) {
  const auto segments = WholeSegments(view);
  std::vector<std::string> header = {"mixer", "solved"};
  const std::vector<std::string> facts = {"steps to<br>threshold", "effective<br>length", "params",
                                          "state"};
  std::string span;
  if (!segments.empty()) {
    span = fmt::format(
        "<tr><th colspan=\"{}\"></th><th class=\"span\" colspan=\"{}\">{}</th><th "
        "colspan=\"{}\"></th></tr>",
        header.size(), segments.size(), AxisNames(segments), facts.size());
  }
  const std::size_t num_before = header.size();
  std::vector<std::optional<double>> ceilings;
  for (const AccuracyOverSeeds* segment : segments) {
    header.push_back(AxisValues(*segment));
    ceilings.push_back(CeilingOf(view, segment->axes));
  }
  header.insert(header.end(), facts.begin(), facts.end());
  std::string rows;
  for (const GroupSummary* group : view.groups) {
    const SolvedText solved = TextOf(group->solve_rate);
    std::vector<std::string> row = {
        Stacked(names.at(group), {EscapeHtml(ChosenText(view, *group))}),
        group->solve_rate ? Stacked(solved.count, {Bracketed(solved.interval)})
                          : EscapeHtml(StatesText(*group))};
    for (const AccuracyOverSeeds* segment : segments) {
      row.push_back(AccuracyCell(FindWhole(*group, segment->axes)));
    }
    for (std::string& fact : Facts(report, *group)) row.push_back(std::move(fact));
    rows += TableRow(row);
  }
  for (const GuessRow& guess : GuessRows(segments)) {
    rows += ReferenceRow(guess.name, guess.accuracy, num_before, facts.size());
  }
  if (std::any_of(ceilings.begin(), ceilings.end(), [](const auto& c) { return c.has_value(); })) {
    rows += ReferenceRow("ceiling", ceilings, num_before, facts.size());
  }
  return Table(header, rows, span);
}

std::string SummaryTables(const SweepReport& report, const TaskView& view, const Styles& styles) {
  std::string out;
  for (const TableView& table : TablesOf(view)) {
    out += Subheading(table) + SummaryTable(report, table.view, NamesOf(view, table.view, styles));
  }
  return out;
}

std::string TrainingSection(const SweepReport& report, const TaskView& view, const Styles& styles) {
  std::string out = Element("h2", EscapeHtml(view.task)) + "\n" +
                    Element("p", EscapeHtml(AccuracyCaption(report, view)), "caption") + "\n" +
                    SummaryTables(report, view, styles);
  std::vector<Chart> charts = AccuracyCharts(view, styles);
  for (Chart& chart : StateCharts(report, view, styles)) charts.push_back(std::move(chart));
  if (const std::string grid = ChartGrid(charts); !grid.empty()) {
    out +=
        "<h3>Accuracy</h3>\n<p class=\"caption\">Bands: from the lowest to the highest seed; of a "
        "single seed the 95 % interval over samples. Dotted: what guessing scores. A red cross "
        "marks a point with a failed seed.</p>\n" +
        grid;
  }
  if (const std::string grid = ChartGrid(SliceCharts(view, styles), "charts small");
      !grid.empty()) {
    out += "<h3>Accuracy by slice</h3>\n" + Legend(view, styles) + grid;
  }
  if (const std::string grid = ChartGrid(LearningCharts(report, view, styles)); !grid.empty()) {
    out +=
        "<h3>Learning</h3>\n<p class=\"caption\">Thin: each seed. Thick: the median of the "
        "seeds still running. A red cross marks where a seed failed.</p>\n" +
        grid;
  }
  return out;
}

std::string ThroughputRows(const SweepReport& report, const TaskView& view, const Names& names) {
  std::string rows;
  for (const GroupSummary* group : view.groups) {
    for (const CellResult& cell : CellsOf(report, *group)) {
      for (const ThroughputRow& row : cell.throughput) {
        rows += TableRow({names.at(group), EscapeHtml(row.phase), std::to_string(row.batch_size),
                          std::to_string(row.seq_len), EscapeHtml(row.dtype),
                          row.median_ms ? fmt::format("{:#.4g}", *row.median_ms) : Pill(row.state),
                          row.spread_ms ? fmt::format("{:#.4g} – {:#.4g}", row.spread_ms->low,
                                                      row.spread_ms->high)
                                        : "–",
                          row.tokens_per_second ? FormatSi(*row.tokens_per_second) : "–",
                          row.peak_memory_bytes ? FormatBytes(*row.peak_memory_bytes) : "–",
                          EscapeHtml(ParityText(row))});
      }
    }
  }
  return rows;
}

std::string ThroughputSection(const SweepReport& report, const TaskView& view,
                              const Styles& styles) {
  const std::string grid = ChartGrid(ThroughputCharts(report, view, styles));
  if (grid.empty()) return "";
  std::string tables;
  for (const TableView& table : TablesOf(view)) {
    const std::string rows = ThroughputRows(report, table.view, NamesOf(view, table.view, styles));
    if (rows.empty()) continue;
    tables +=
        Subheading(table) + Table({"mixer", "phase", "batch", "seq_len", "dtype", "median, ms",
                                   "20 – 80 %, ms", "tokens/s", "peak memory", "parity"},
                                  rows);
  }
  return Element("h2", view.kind == "throughput" ? "Speed" : EscapeHtml(view.task) + ": speed") +
         "\n<p class=\"caption\">Median over repeats after warm-up; bands span the 20th to the "
         "80th percentile. A red cross marks a size that did not run.</p>\n" +
         grid + "<h3>Every measurement</h3>\n" + tables;
}

std::string TimeSection(const SweepReport& report) {
  const std::vector<TimeRow> times = TimesByMixer(report);
  if (times.empty()) return "";
  std::string rows;
  for (const TimeRow& row : times) {
    std::vector<std::string> fields = TimeFields(row);
    for (std::string& field : fields) field = EscapeHtml(field);
    rows += TableRow(fields);
  }
  return "<h2>Where the time went</h2>\n" + Element("p", kTimeCaption, "caption") + "\n" +
         Table(TimeColumns(), rows);
}

std::string PlanSection(const SweepReport& report) {
  const std::vector<PlanTableRow> plans = PlansByMixer(report);
  if (plans.empty()) return "";
  std::string rows;
  for (const PlanTableRow& row : plans) {
    std::vector<std::string> fields = PlanFields(row);
    for (std::string& field : fields) field = EscapeHtml(field);
    rows += TableRow(fields);
  }
  return "<h2>What ran</h2>\n" + Element("p", kPlanCaption, "caption") + "\n" +
         Table(PlanColumns(), rows, "", "cells");
}

std::string CellTable(const SweepReport& report) {
  std::string rows;
  for (const CellResult& cell : report.cells) {
    rows += "<tr>" + Element("td", EscapeHtml(cell.name)) +
            Element("td", std::to_string(cell.seed)) + Element("td", Pill(cell.state), "text") +
            Element("td", EscapeHtml(cell.reason), "reason") +
            Element("td", cell.step > 0 ? std::to_string(cell.step) : "–") +
            Element("td",
                    cell.tokens_seen > 0 ? FormatSi(static_cast<double>(cell.tokens_seen)) : "–") +
            Element("td", cell.wall_s > 0 ? fmt::format("{:.1f}", cell.wall_s) : "–") +
            Element("td", Element("code", EscapeHtml(ShortHash(cell.run_id)))) + "</tr>\n";
  }
  return "<h2>Cells</h2>\n" +
         Table({"cell", "seed", "state", "reason", "steps", "tokens", "wall, s", "run"}, rows, "",
               "cells");
}

std::string DataHashes(const Value& hashes) {
  if (!hashes.is_object()) return "–";
  std::string text;
  for (const auto& [split, hash] : hashes.as_object()) {
    text += (text.empty() ? "" : "<br>") + EscapeHtml(split) + " " +
            (hash.is_string() ? EscapeHtml(ShortHash(hash.as_string())) : "–");
  }
  return Element("code", text);
}

std::string Footer(const SweepReport& report) {
  std::string rows;
  for (const CellResult& cell : report.cells) {
    rows += "<tr>" + Element("td", EscapeHtml(cell.name) + ", seed " + std::to_string(cell.seed)) +
            Element("td", Element("code", EscapeHtml(cell.run_id)), "text") +
            Element("td", DataHashes(cell.data_hash), "text") + "</tr>\n";
  }
  return "<footer>\n<h2>Reproducing</h2>\n<p class=\"caption\">A run id is the SHA-256 of "
         "everything "
         "that can change a result: what was asked, code, data and seed. The same id gives the "
         "same "
         "numbers in strict mode, on any machine of the same kind. Data hashes are by their first "
         "12 digits. Report schema " +
         std::string(kSchemaVersion) + ".</p>\n" +
         Table({"cell", "run id", "data"}, rows, "", "ids") + "</footer>\n";
}

}  // namespace

std::string RenderHtml(const SweepReport& report) {
  const Styles styles = LabelStyles(report);
  std::string training;
  std::string speed;
  for (const TaskView& view : TaskViews(report)) {
    if (view.kind != "throughput") training += TrainingSection(report, view, styles);
    speed += ThroughputSection(report, view, styles);
  }
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
         "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
         "'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
         "<meta name=\"color-scheme\" content=\"light dark\">\n" +
         Element("title", EscapeHtml(report.name) + " – mixerbench") + "\n<style>\n" +
         std::string(kPageStyle) + "</style>\n</head>\n<body>\n" + Header(report) + "<main>\n" +
         training + speed + TimeSection(report) + PlanSection(report) + CellTable(report) +
         "</main>\n" + Footer(report) + "</body>\n</html>\n";
}

}  // namespace mixerbench::reports
