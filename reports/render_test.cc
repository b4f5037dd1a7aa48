// Markdown, CSV and the page: nothing is lost, nothing acts, the same report gives the same bytes.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "reports/csv.h"
#include "reports/html.h"
#include "reports/json.h"
#include "reports/labels.h"
#include "reports/markdown.h"
#include "reports/plan_table.h"
#include "reports/svg.h"
#include "reports/sweep_report.h"
#include "reports/test_cells.h"
#include "reports/text.h"
#include "reports/time_table.h"

#include "tests/support/catch2.h"

namespace mixerbench::reports {
namespace {

// What a hostile config or error text may hold: markup, formulas, terminal escapes, broken UTF-8,
// text that runs backwards.
const std::string kHostile =
    "=cmd|'/c'!A1 <script>alert(1)</script>\"'&\n| **x** [a](javascript:b) `c`\x1b[2J\xff"
    "\xe2\x80\xae";

SweepReport Hostile() {
  std::vector<CellResult> cells = ExampleSweep(1);
  for (CellResult& cell : cells) cell.environment = Object{{"gpu", Object{{"name", kHostile}}}};
  cells.back().name = "mqar/" + kHostile;
  cells.back().reason = kHostile;
  cells.back().phases.emplace();
  cells[0].accuracy[0].axes[kHostile] = 5;
  cells[0].accuracy[1].bucket = kHostile;
  cells[0].data_hash = Object{{kHostile, kHostile}};
  cells[1].throughput[0].reason = kHostile;
  cells[1].plans.at(0).functions.at(1).reason = kHostile;
  return MakeSweepReport(kHostile, {}, std::move(cells));
}

// RFC 4180, as a reader would.
std::vector<std::vector<std::string>> ReadCsv(const std::string& text) {
  std::vector<std::vector<std::string>> rows(1, std::vector<std::string>(1));
  bool is_quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_quoted && c == '"' && i + 1 < text.size() && text[i + 1] == '"') {
      rows.back().back() += c;
      ++i;
    } else if (c == '"') {
      is_quoted = !is_quoted;
    } else if (!is_quoted && c == ',') {
      rows.back().emplace_back();
    } else if (!is_quoted && c == '\n') {
      rows.emplace_back(1);
    } else {
      rows.back().back() += c;
    }
  }
  rows.pop_back();  // after the last line end
  return rows;
}

// Every element that is opened is closed, in order; void elements and drawings stand alone.
bool IsBalanced(const std::string& html) {
  std::vector<std::string> open;
  for (std::size_t at = html.find('<'); at != html.npos; at = html.find('<', at + 1)) {
    const std::size_t end = html.find('>', at);
    if (end == html.npos) return false;
    const bool is_closing = html[at + 1] == '/';
    const std::size_t begin = at + (is_closing ? 2 : 1);
    const std::string name = html.substr(begin, html.find_first_of(" >/", begin) - begin);
    if (name == "!DOCTYPE" || name == "meta" || name == "br" || html[end - 1] == '/') continue;
    if (!is_closing) {
      open.push_back(name);
    } else if (open.empty() || open.back() != name) {
      return false;
    } else {
      open.pop_back();
    }
  }
  return open.empty();
}

std::size_t Count(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST_CASE("text: lines are plain, whatever they hold") {
  CHECK(PlainLine("a\tb\r\nc\x1b[31m\x7f\xff") == "a b  c[31m\xEF\xBF\xBD");
  CHECK(PlainLine("a\xE2\x80\xAE\xE2\x81\xA6\xC2\x9B\x62") == "ab");
  CHECK(PlainLine("\xC3\xA9 \xE2\x80\x93 \xE6\xBC\xA2") == "\xC3\xA9 \xE2\x80\x93 \xE6\xBC\xA2");
  CHECK(EscapeHtml("<a href=\"x\">'&") == "&lt;a href=&quot;x&quot;&gt;&#39;&amp;");
  CHECK(EscapeMarkdown("a|b_c<d>@e") == "a\\|b\\_c&lt;d&gt;&#64;e");
}

TEST_CASE("text: CSV fields are quoted and never formulas") {
  CHECK(CsvField("a") == "a");
  CHECK(CsvField("a,\"b\"") == "\"a,\"\"b\"\"\"");
  for (const char* formula : {"=1+1", "+1", "-1", "@x"}) {
    CHECK(CsvField(formula) == "'" + std::string(formula));
  }
}

TEST_CASE("text: shares near 0 and 1 do not read as 0 and 1") {
  CHECK(FormatPercent(1) == "100.0");
  CHECK(FormatPercent(0.99999) == "99.99");
  CHECK(FormatPercent(0.9871) == "98.7");
  CHECK(FormatPercent(1.0 / 8192) == "0.012");
  CHECK(FormatPercent(0) == "0.0");
  CHECK(FormatPercentRange(0.9712, 0.9887) == "97.1–98.9");
  CHECK(FormatPercentRange(0.57, 0.63) == "57.0–63.0");  // 100 * 0.57 is below 57
  CHECK(FormatPercentRange(0, 1) == "0.0–100.0");
  // Around a mean of 99.98, as FormatPercent writes it.
  CHECK(FormatPercentRange(0.99974, 0.99986) == "99.97–99.99");
  CHECK(FormatPercentRange(0.00013, 0.99999) == "0.01–100.0");
  CHECK(FormatBytes(65536) == "64 KiB");
  CHECK(FormatBytes(1000) == "1000 B");
  CHECK(FormatSi(1184512) == "1.18 M");
  CHECK(FormatSi(999.9) == "1 k");
}

TEST_CASE("markdown: every mixer, every failed cell, and chance") {
  const std::string text = RenderMarkdown(MakeSweepReport("mqar-length", {}, ExampleSweep()));
  for (const char* mixer :
       {"attention", "deltanet", "gated\\_deltanet", "gla", "mamba2", "rwkv7"}) {
    CHECK(Count(text, "| " + std::string(mixer) + " |") >= 1);
  }
  CHECK_THAT(text, Catch::Contains("- mqar/mamba2/d\\_model=128, seed 1002: **diverged**: train "
                                   "loss was not finite at step 1200"));
  CHECK_THAT(text, Catch::Contains("- mqar/rwkv7/d\\_model=128, seed 1000: **unsupported**"));
  CHECK_THAT(text, Catch::Contains("| *chance: uniform over values* |  | *0.012* | *0.012* |"));
  CHECK_THAT(text, Catch::Contains("| *guess: some value of the context* |  | *25.0* | *12.5* |"));
  CHECK_THAT(text, Catch::Contains("†"));
}

TEST_CASE("tables: accuracy comes before speed, solved seeds before their mean") {
  std::vector<CellResult> cells = ExampleSweep();
  // Of one task, as `run` makes them: "throughput" sorts before "train".
  for (CellResult& cell : cells) {
    if (cell.kind == "throughput") cell.name.replace(0, cell.name.find('/'), "mqar");
  }
  const SweepReport report = MakeSweepReport("s", {}, cells);
  const std::string text = RenderMarkdown(report);
  CHECK(text.find("| mixer | solved | input") < text.find("## mqar: speed"));
  CHECK(text.find("## mqar: speed") != text.npos);
  const std::string page = RenderHtml(report);
  CHECK(page.find("<th>solved</th>") < page.find("<th>median, ms</th>"));
  CHECK(page.find("<th>steps to<br>threshold</th>") > page.find("<th>64 / 4</th>"));
}

TEST_CASE("tables: an accuracy stands with its seeds and the interval that holds") {
  const auto text_of = [](int num_seeds) {
    const SweepReport report = MakeSweepReport("s", {}, ExampleSweep(num_seeds));
    return TextOf(report.groups.front().accuracy.front());
  };
  CHECK(text_of(1).seeds.empty());
  CHECK_FALSE(text_of(1).interval.empty());  // over samples
  CHECK_FALSE(text_of(4).seeds.empty());
  CHECK(text_of(4).interval.empty());
  CHECK_FALSE(text_of(5).seeds.empty());
  CHECK_THAT(text_of(5).interval, Catch::StartsWith("47."));  // 0.025^(1/5) = 0.478
}

TEST_CASE("tables: limited cells are marked in every form") {
  std::vector<CellResult> cells = ExampleSweep(1);
  CHECK(Count(RenderMarkdown(MakeSweepReport("s", {}, cells)), "limit") == 0);
  CellResult limited = cells.front();
  limited.partial = true;
  limited.group_id = limited.run_id = "sha256:limited";
  cells.push_back(limited);
  const SweepReport report = MakeSweepReport("s", {}, cells);
  const std::string text = RenderMarkdown(report);
  CHECK_THAT(text, Catch::Contains("**1 of 12 cells ran with a limit"));
  CHECK(Count(text, "| attention (limited) |") == 1);
  CHECK(Count(text, "| attention |") >= 1);
  CHECK_THAT(RenderHtml(report), Catch::Contains("attention (limited)"));
  const auto rows = ReadCsv(RenderAccuracyCsv(report));
  const auto partial = static_cast<std::size_t>(
      std::find(rows[0].begin(), rows[0].end(), "partial") - rows[0].begin());
  REQUIRE(partial < rows[0].size());
  CHECK(std::count_if(rows.begin(), rows.end(), [&](const auto& row) {
          return row[partial] == "true";
        }) == std::ssize(limited.accuracy));
}

TEST_CASE("tables: the chosen setting is shown, what is common once above, the rest in labels") {
  const Value suite = Object{{"sweep", Object{{"select", Object{{"over", Array{"train.lr"}},
                                                                {"by", "validation.accuracy"}}}}}};
  std::vector<CellResult> cells;
  for (const auto& [mixer, d_model, lr] : {std::tuple{"gla", "64", "0.1"},
                                           {"gla", "64", "0.2"},
                                           {"gla", "128", "0.1"},
                                           {"retnet", "64", "0.2"}}) {
    CellResult cell;
    cell.name = std::string("mqar/") + mixer + "/d_model=" + d_model + ",lr=" + lr + ",layers=2";
    cell.group_id = cell.run_id = cell.name;
    cell.kind = "train";
    cell.config = Object{{"model", Object{{"mixer", mixer}, {"d_model", d_model}}},
                         {"train", Object{{"lr", lr}}}};
    cell.state = CellState::kCompleted;
    cell.learning_curve = {{.step = 1, .validation_accuracy = std::stod(lr)}};
    cells.push_back(cell);
  }
  const SweepReport report = MakeSweepReport("s", suite, cells);
  const std::string text = RenderMarkdown(report);
  CHECK_THAT(text, Catch::Contains("| mixer | chosen | solved |"));
  CHECK_THAT(text, Catch::Contains("Everywhere: layers 2."));
  // A table for each width, mixers in rows.
  const std::size_t wide = text.find("### d\\_model 128\n");
  const std::size_t narrow = text.find("### d\\_model 64\n");
  REQUIRE(wide < narrow);
  CHECK(text.find("| gla | lr 0.1 |") > wide);
  CHECK(text.find("| gla | lr 0.1 |") < narrow);
  CHECK(text.find("| gla | lr 0.2 |") > narrow);
  CHECK(text.find("| retnet | lr 0.2 |") > narrow);
  // One mixer alone: its settings are the rows.
  cells.pop_back();
  CHECK_THAT(RenderMarkdown(MakeSweepReport("s", suite, cells)),
             Catch::Contains("| gla; d\\_model 64 | lr 0.2 |"));
  CHECK_THAT(RenderHtml(report), Catch::Contains("<small>lr 0.2</small>"));
  const std::string csv = RenderAccuracyCsv(report);
  CHECK(Count(csv, ",false,true,") == 3);
  CHECK(Count(csv, ",false,false,") == 1);
}

TEST_CASE("tables: nothing is called chosen while the seeds differ") {
  const Value suite = Object{{"sweep", Object{{"select", Object{{"over", Array{"train.lr"}},
                                                                {"by", "validation.accuracy"}}}}}};
  std::vector<CellResult> cells;
  for (const auto& [lr, seed] : {std::pair{"0.1", 0}, {"0.1", 1}, {"0.2", 0}}) {
    CellResult cell;
    cell.name = std::string("mqar/gla/lr=") + lr;
    cell.group_id = cell.name;
    cell.run_id = cell.name + std::to_string(seed);
    cell.kind = "train";
    cell.seed = static_cast<std::uint64_t>(seed);
    cell.config = Object{{"train", Object{{"lr", lr}}}};
    cell.state = CellState::kCompleted;
    cells.push_back(cell);
  }
  const std::string text = RenderMarkdown(MakeSweepReport("s", suite, cells));
  CHECK_THAT(text, Catch::Contains("No train.lr is selected yet"));
  CHECK(Count(text, "Chosen") == 0);
  CHECK(Count(text, "| chosen |") == 0);
  CHECK_THAT(text, Catch::Contains("| gla; lr 0.1 |"));
  CHECK_THAT(text, Catch::Contains("| gla; lr 0.2 |"));
}

TEST_CASE("tables: a ceiling stands below chance where training data do not tell all") {
  std::vector<CellResult> cells = ExampleSweep();
  CHECK(Count(RenderMarkdown(MakeSweepReport("s", {}, cells)), "ceiling") == 0);
  CHECK(Count(RenderHtml(MakeSweepReport("s", {}, cells)), ">ceiling<") == 0);
  // Training data differ between seeds: the highest ceiling is the table's.
  for (CellResult& cell : cells) {
    for (AccuracyRow& row : cell.accuracy) {
      const bool is_first = row.slice.empty() && row.axes == cells.front().accuracy.front().axes;
      if (is_first) row.ceiling = cell.seed == 1001 ? 0.632 : 0.625;
    }
  }
  const SweepReport report = MakeSweepReport("s", {}, cells);
  CHECK_THAT(RenderMarkdown(report), Catch::Contains("| *ceiling* |  | *63.2* |  |"));
  const std::string html = RenderHtml(report);
  CHECK(Count(html, ">ceiling<") == 1);
  CHECK(Count(html, ">63.2<") == 1);
  CHECK(IsBalanced(html));
}

TEST_CASE("markdown: hostile names stay text and tables stay tables") {
  const std::string text = RenderMarkdown(Hostile());
  CHECK(Count(text, "<script") == 0);
  CHECK(Count(text, "[a](") == 0);
  CHECK(Count(text, "\x1b") == 0);
  CHECK(ValidUtf8(text) == text);
  std::size_t columns = 0;  // of the table at hand
  for (const std::string& line : Lines(text)) {
    const std::size_t bars = Count(line, "|") - Count(line, "\\|");
    if (line.empty() || line[0] != '|') {
      columns = 0;
      continue;
    }
    if (columns == 0) columns = bars;
    CHECK(bars == columns);
  }
}

TEST_CASE("time: sums over the cells of a mixer, and the time of a step") {
  std::vector<CellResult> cells;
  for (const auto& [name, step] : {std::pair{"mqar/gla/lr=0.1", 100},
                                   {"mqar/gla/lr=0.2", 300},
                                   {"mqar/attention/lr=0.1", 0},
                                   {"mqar/attention/lr=0.2", 7}}) {
    CellResult cell;
    cell.name = name;
    cell.kind = "train";
    cell.step = step;
    cell.phases = PhaseTimes{.setup_s = 0.25,
                             .capture_s = 0.5,
                             .train_s = 1,
                             .validation_s = 2,
                             .test_s = 3,
                             .checkpoint_s = 4};
    cells.push_back(cell);
  }
  cells.back().phases.reset();  // as in a result of an older version
  const SweepReport report = MakeSweepReport("s", {}, cells);
  const auto rows = TimesByMixer(report);
  REQUIRE(rows.size() == 2);
  CHECK(TimeFields(rows[0]) == std::vector<std::string>{"mqar", "attention", "1", "0", "0.25",
                                                        "0.50", "1.00", "2.00", "3.00", "4.00",
                                                        "–"});
  CHECK(TimeFields(rows[1]) == std::vector<std::string>{"mqar", "gla", "2", "400", "0.50", "1.00",
                                                        "2.00", "4.00", "6.00", "8.00", "5"});
  CHECK(TimeColumns().size() == TimeFields(rows[0]).size());
  CHECK_THAT(RenderMarkdown(report), Catch::Contains("| mqar | gla | 2 | 400 | 0.50 |"));
  CHECK_THAT(RenderHtml(report), Catch::Contains("<td>400</td><td>0.50</td>"));
}

TEST_CASE("what ran: a row for each mixer, plan and reason, with the lengths") {
  const SweepReport report = MakeSweepReport("s", {}, ExampleSweep());
  const auto rows = PlansByMixer(report);
  const auto fields_of = [&](const std::string& mixer) {
    std::vector<std::vector<std::string>> found;
    for (const auto& row : rows) {
      if (row.mixer == mixer) found.push_back(PlanFields(row));
    }
    return found;
  };
  CHECK(fields_of("gla") ==
        std::vector<std::vector<std::string>>{
            {"throughput", "gla", "scalar_decay", "chunk_scan", "–", "fwd 512–32768", "graph", "–"},
            {"throughput", "gla", "scalar_decay", "chunk_scan", "chunk_scan", "fwd_bwd 512–32768",
             "graph", "–"}});
  const auto fallback = fields_of("mamba2");
  REQUIRE(fallback.size() == 2);
  CHECK(fallback[0].back() == "head_k_dim 24 is no multiple of 16");
  CHECK(PlanColumns().size() == fallback[0].size());
  CHECK_THAT(RenderMarkdown(report),
             Catch::Contains("| mamba2 | scalar\\_decay | aten\\_chunk | – | fwd 512–32768 |"));
  CHECK_THAT(RenderHtml(report), Catch::Contains("<td>head_k_dim 24 is no multiple of 16</td>"));
}

TEST_CASE("what ran: a row says why a GPU replays no graph, and what was compared") {
  CellResult cell = ExampleCell();
  cell.plans = {{.phase = "test",
                 .batch_size = 2,
                 .seq_len = 64,
                 .execution = "eager",
                 .eager_reason = "inputs run in pieces",
                 .functions = {{.function = "gsa",
                                .is_core = true,
                                .scopes = {"layers.0"},
                                .forward = "fused",
                                .backward = {},
                                .reason = {}},
                               {.function = "linear",
                                .is_core = false,
                                .scopes = {""},
                                .forward = "aten",
                                .backward = {},
                                .reason = "for bf16"}}}};
  const auto rows = PlansByMixer(MakeSweepReport("s", {}, {cell}));
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].execution == "eager: inputs run in pieces");
  CHECK(rows[0].runs == "test 64");
  ThroughputRow row;
  row.parity_check = "passed";
  CHECK(ParityText(row) == "passed");
  row.parity = Parity{.passes = "forward",
                      .num_sequences = 1,
                      .num_tokens = 1,
                      .quantity = "hidden",
                      .error = 0.0041,
                      .tolerance = 0.0097};
  CHECK(ParityText(row) == "passed, 0.0041 of 0.0097");
  row.state = CellState::kError;
  row.reason = "it disagrees";
  CHECK(ParityText(row) == "it disagrees");
}

TEST_CASE("csv: one row for each cell and segment, read back field by field") {
  const SweepReport report = MakeSweepReport("s", {}, ExampleSweep());
  const auto rows = ReadCsv(RenderAccuracyCsv(report));
  std::size_t expected = 1;
  for (const CellResult& cell : report.cells) {
    expected += std::max<std::size_t>(1, cell.accuracy.size());
  }
  CHECK(rows.size() == expected);
  for (const auto& row : rows) REQUIRE(row.size() == rows[0].size());
  const auto column = [&](const std::string& name) {
    return static_cast<std::size_t>(std::find(rows[0].begin(), rows[0].end(), name) -
                                    rows[0].begin());
  };
  const AccuracyRow& first = report.cells[0].accuracy[0];
  CHECK(std::stod(rows[1][column("accuracy")]) == *first.accuracy);
  CHECK(rows[1][column("input_seq_len")] == "64");
  CHECK(rows[1][column("mixer")] == "attention");
}

TEST_CASE("csv: hostile names survive as fields") {
  const auto rows = ReadCsv(RenderAccuracyCsv(Hostile()));
  for (const auto& row : rows) {
    REQUIRE(row.size() == rows[0].size());
    for (const std::string& field : row) CHECK(field.find_first_of("=+@") != 0);
  }
}

TEST_CASE("page: well-formed, self-contained and the same every time") {
  const SweepReport report = MakeSweepReport("mqar-length", {}, ExampleSweep());
  const std::string page = RenderHtml(report);
  CHECK(RenderHtml(report) == page);
  CHECK(IsBalanced(page));
  CHECK_THAT(page, Catch::Contains("default-src 'none'"));
  for (const char* foreign :
       {"<script", "http:", "https:", "url(", "@import", "src=", "nan", "inf "}) {
    CAPTURE(foreign);
    CHECK(Count(page, foreign) == 0);
  }
  // Every cell has its row, and every run id stands in full.
  for (const CellResult& cell : report.cells) CHECK(Count(page, cell.run_id) == 1);
  CHECK(Count(page, "<svg class=\"chart\"") == 12);
}

TEST_CASE("page: hostile names stay text") {
  const std::string page = RenderHtml(Hostile());
  CHECK(IsBalanced(page));
  CHECK(Count(page, "<script") == 0);
  CHECK(Count(page, "\x1b") == 0);
  CHECK(Count(page, "\xe2\x80\xae") == 0);
  CHECK(ValidUtf8(page) == page);
}

TEST_CASE("page: reports without cells, curves or values are pages too") {
  CHECK(IsBalanced(RenderHtml(MakeSweepReport("empty", {}, {}))));
  std::vector<CellResult> planned(2);
  planned[0].name = "mqar/gla";
  CHECK(IsBalanced(RenderHtml(MakeSweepReport("planned", {}, planned))));
  CHECK(Count(RenderMarkdown(MakeSweepReport("planned", {}, planned)), "planned") >= 3);
}

TEST_CASE("chart: one point, equal values and zeros on a logarithmic axis draw finite numbers") {
  Chart chart;
  chart.title = "t";
  chart.y.scale = ChartAxis::Scale::kLog10;
  CHECK(RenderChart(chart).empty());
  ChartPoint one;
  one.x = 3;
  one.y = 0;
  chart.series.push_back({.label = "a", .style = 9, .is_faint = false, .points = {one}});
  ChartPoint two = one;
  two.y = 100;
  chart.series.push_back({.label = "b", .style = 0, .is_faint = false, .points = {two, two}});
  const std::string svg = RenderChart(chart);
  CHECK(IsBalanced(svg));
  CHECK(Count(svg, "nan") == 0);
  CHECK(Count(svg, "inf") == 0);
  CHECK(Count(svg, "class=\"cross") == 1);  // 0 has no place on the axis
}

TEST_CASE("chart: a guess that depends on x is a dash at each x, one that does not a line") {
  const SweepReport report = MakeSweepReport("s", {}, ExampleSweep());
  const std::string page = RenderHtml(report);
  const std::string over_length = page.substr(page.find("Accuracy over input_seq_len"));
  const std::string chart = over_length.substr(0, over_length.find("</svg>"));
  CHECK(Count(chart, "class=\"reference\"") == 6);  // chance, and 1/pairs at five lengths
  CHECK(Count(chart, ">chance 0.012 %<") == 1);
  CHECK(Count(chart, ">some value of the context<") == 1);
}

TEST_CASE("chart: labels of lines that end together are moved apart") {
  Chart chart;
  for (int i = 0; i < 8; ++i) {
    ChartPoint point;
    point.x = 1;
    point.y = 0.5;
    chart.series.push_back(
        {.label = "m" + std::to_string(i), .style = i, .is_faint = false, .points = {point}});
  }
  const std::string svg = RenderChart(chart);
  std::vector<double> baselines;
  for (std::size_t at = svg.find("class=\"name"); at != svg.npos;
       at = svg.find("class=\"name", at + 1)) {
    baselines.push_back(std::stod(svg.substr(svg.find("y=\"", svg.find("x=\"", at)) + 3)));
  }
  REQUIRE(baselines.size() == 8);
  std::sort(baselines.begin(), baselines.end());
  for (std::size_t i = 1; i < baselines.size(); ++i) {
    CHECK(baselines[i] - baselines[i - 1] > 13.5);
  }
}

}  // namespace
}  // namespace mixerbench::reports
