// SPDX-License-Identifier: Apache-2.0
#include "reports/export/export.h"

#include <algorithm>
#include <set>
#include <sstream>
#include <string>

#include "io/json.h"
#include "reports/export/accuracy_csv.h"
#include "reports/testing/test_cells.h"

#include "tests/support/catch2.h"

namespace mixerbench::reports {
namespace {

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

SweepReport Hostile() {
  const std::string hostile = "=cmd|'/c'!A1 <script>alert(1)</script>\"'&\n| `c`\x1b[2J\xff";
  std::vector<CellResult> cells = ExampleSweep(1);
  cells.back().name = "mqar/" + hostile;
  cells.back().reason = hostile;
  cells[0].accuracy[0].axes[hostile] = 5;
  cells[0].accuracy[1].bucket = hostile;
  return MakeSweepReport(hostile, {}, std::move(cells));
}

SweepReport Example() { return MakeSweepReport("example", {}, ExampleSweep(2)); }

std::ptrdiff_t CountLines(const std::string& text) {
  return std::count(text.begin(), text.end(), '\n');
}

}  // namespace

TEST_CASE("CSV has every point of a curve and every sample of a timing", "[reports][export]") {
  const SweepReport report = Example();
  std::ptrdiff_t points = 0;
  std::ptrdiff_t samples = 0;
  for (const CellResult& cell : report.cells) {
    points += static_cast<std::ptrdiff_t>(cell.learning_curve.size());
    for (const ThroughputRow& row : cell.throughput) {
      samples += std::max<std::ptrdiff_t>(1, static_cast<std::ptrdiff_t>(row.samples_ms.size()));
    }
  }
  CHECK(CountLines(RenderCurvesCsv(report)) == points + 1);
  const std::string timings = RenderTimingsCsv(report);
  CHECK(CountLines(timings) == samples + 1);
  std::istringstream lines(timings);
  std::string line;
  std::getline(lines, line);
  const auto num_fields = std::count(line.begin(), line.end(), ',');
  while (std::getline(lines, line)) {
    if (line.find('"') != std::string::npos) continue;  // a quoted field may hold commas
    CHECK(std::count(line.begin(), line.end(), ',') == num_fields);
  }
}

TEST_CASE("csv-curves: auxiliary losses have columns, empty where a mixer has none",
          "[reports][export]") {
  std::vector<CellResult> cells = ExampleSweep(1);
  cells[0].learning_curve[0].auxiliary_losses = {{"balance", 0.25}, {"z", 2}};
  const auto rows = ReadCsv(RenderCurvesCsv(MakeSweepReport("e", {}, cells)));
  CHECK(rows[0][10] == "auxiliary_loss.balance");
  CHECK(rows[0][11] == "auxiliary_loss.z");
  CHECK(std::stod(rows[1][10]) == 0.25);
  CHECK(rows[2][10].empty());
  for (const auto& row : rows) CHECK(row.size() == 12);
}

TEST_CASE("CSV has every tap of a trained model", "[reports][export]") {
  CellResult cell = ExampleCell();
  cell.taps.front().axes = {{"input_seq_len", 64}, {"num_kv_pairs", 4}};
  const std::string table = RenderTapsCsv(MakeSweepReport("e", {}, {cell}));
  CHECK(CountLines(table) == 2);
  CHECK(table.find(R"(,"{""input_seq_len"":64,""num_kv_pairs"":4}",write_gate,)"
                   "layers.0.write_gate,completed,,32,4096,3,0.51,0.02,0.44,0.57\n") !=
        std::string::npos);
}

TEST_CASE("Google Benchmark's form: rows with names, times and units; failures as errors",
          "[reports][export]") {
  std::vector<CellResult> cells = ExampleSweep(2);
  cells.back().state = CellState::kError;
  cells.back().reason = "<b>\"broken\"</b>";
  const Value document =
      io::ParseJson(RenderGoogleBenchmark(MakeSweepReport("e", {}, cells)), io::kReportLimits);
  CHECK(document.Find("context")->Find("json_schema_version")->as_int() == 1);
  const Array& rows = document.Find("benchmarks")->as_array();
  REQUIRE_FALSE(rows.empty());
  std::set<std::string> medians;
  for (const Value& row : rows) {
    CHECK(row.Find("name")->is_string());
    CHECK(row.Find("run_name")->is_string());
    CHECK(row.Find("real_time")->is_number());
    CHECK(row.Find("time_unit")->as_string() == "us");
    if (row.Find("run_type")->as_string() == "aggregate") {
      CHECK(medians.insert(row.Find("name")->as_string()).second);
    }
    if (row.Find("error_occurred")) CHECK_FALSE(row.Find("error_message")->as_string().empty());
  }
  CHECK_FALSE(medians.empty());
}

TEST_CASE("A training is one iteration of Google Benchmark's, with the time of all of it",
          "[reports][export]") {
  CellResult cell = ExampleCell();
  cell.step = 32;
  cell.wall_s = 1.5;
  cell.throughput.clear();
  const Value document =
      io::ParseJson(RenderGoogleBenchmark(MakeSweepReport("e", {}, {cell})), io::kReportLimits);
  const Value& row = document.Find("benchmarks")->as_array().at(0);
  CHECK(row.Find("iterations")->as_int() == 1);
  CHECK(row.Find("real_time")->as_double() == Approx(1.5e6));
  CHECK(row.Find("steps")->as_int() == 32);
}

TEST_CASE("Google Benchmark's form: rows of several groups of one name have names of their own",
          "[reports][export]") {
  CellResult one = ExampleCell();
  CellResult other = one;
  other.group_id = "sha256:0123456789";
  other.run_id += "0";
  const auto names = [](std::vector<CellResult> cells) {
    const Value document = io::ParseJson(
        RenderGoogleBenchmark(MakeSweepReport("e", {}, std::move(cells))), io::kReportLimits);
    std::set<std::string> trainings;
    for (const Value& row : document.Find("benchmarks")->as_array()) {
      const std::string name = row.Find("name")->as_string();
      if (name.find("/seed:") != std::string::npos) trainings.insert(name);
    }
    return trainings;
  };
  CHECK(*names({one}).begin() == one.name + "/seed:1000");
  CHECK(names({one, other}).size() == 2);
  CHECK(names({one, other}).contains(one.name + "/group:01234567/seed:1000"));
}

TEST_CASE("A step of decoding counts one token of each sequence", "[reports][export]") {
  CellResult cell = ExampleCell();
  cell.throughput.resize(1);
  ThroughputRow& timing = cell.throughput[0];
  timing.phase = "decode";
  timing.batch_size = 8;
  timing.seq_len = 512;
  timing.samples_ms = {2};
  timing.median_ms = 2;
  const Value document =
      io::ParseJson(RenderGoogleBenchmark(MakeSweepReport("e", {}, {cell})), io::kReportLimits);
  int num_timings = 0;
  for (const Value& row : document.Find("benchmarks")->as_array()) {
    if (row.Find("name")->as_string().find("/decode/") == std::string::npos) continue;
    CHECK(row.Find("items_per_second")->as_double() == Approx(4000));
    ++num_timings;
  }
  CHECK(num_timings == 2);  // the sample and the median
}

TEST_CASE("The log has one start and one stop a run, in MLPerf's form", "[reports][export]") {
  const SweepReport report = Example();
  std::istringstream lines(RenderMlLog(report));
  int starts = 0;
  int stops = 0;
  for (std::string line; std::getline(lines, line);) {
    REQUIRE(line.starts_with(":::MLLOG "));
    const Value event = io::ParseJson(line.substr(9));
    for (const char* key : {"namespace", "time_ms", "event_type", "key", "value", "metadata"}) {
      CHECK(event.Find(key));
    }
    starts += event.Find("key")->as_string() == "run_start" ? 1 : 0;
    stops += event.Find("key")->as_string() == "run_stop" ? 1 : 0;
    if (event.Find("key")->as_string() == "global_batch_size") {
      CHECK(line.find(R"("value":256})") != std::string::npos);  // not 256.0
    }
    // 2026-11-21T08:00:00Z
    CHECK(event.Find("time_ms")->as_int() >= 1'795'248'000'000);
  }
  const auto trained = std::count_if(
      report.cells.begin(), report.cells.end(),
      [](const CellResult& cell) { return cell.kind == "train" && !cell.started.empty(); });
  CHECK(starts == trained);
  CHECK(stops == trained);
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

// The column of a name in each row after the head.
std::vector<std::string> ColumnOf(const std::vector<std::vector<std::string>>& rows,
                                  const std::string& name) {
  const auto found = std::find(rows[0].begin(), rows[0].end(), name);
  REQUIRE(found != rows[0].end());
  std::vector<std::string> fields;
  for (std::size_t i = 1; i < rows.size(); ++i) {
    REQUIRE(rows[i].size() == rows[0].size());
    fields.push_back(rows[i][static_cast<std::size_t>(found - rows[0].begin())]);
  }
  return fields;
}

TEST_CASE("csv-cells: what a cell without result does not know is empty") {
  std::vector<CellResult> cells;
  for (const CellState state : {CellState::kPlanned, CellState::kInterrupted}) {
    cells.push_back(TrainedCell("mqar/gla/lr=0.5", cells.size()));
    cells.back().run_id += std::to_string(cells.size());
    cells.back().state = state;
    cells.back().threshold = 0.95;
  }
  const auto rows = ReadCsv(RenderCellsCsv(MakeSweepReport("s", {}, std::move(cells))));
  for (const char* name : {"steps", "wall_s", "tokens_seen", "solved"}) {
    CHECK(ColumnOf(rows, name) == std::vector<std::string>{"", ""});
  }
}

TEST_CASE("csv-cells: one row for each cell, with how it ended, learned and what it took") {
  const SweepReport report = MakeSweepReport("s", {}, ExampleSweep());
  const auto rows = ReadCsv(RenderCellsCsv(report));
  REQUIRE(rows.size() == report.cells.size() + 1);
  CHECK(std::set<std::string>(rows[0].begin(), rows[0].end()).size() == rows[0].size());
  for (std::size_t i = 0; i < report.cells.size(); ++i) {
    const CellResult& cell = report.cells[i];
    const auto field = [&](const char* name) { return ColumnOf(rows, name)[i]; };
    CHECK(field("run_id") == cell.run_id);
    CHECK(field("group_id") == cell.group_id);
    CHECK(field("setting.d_model") == "128");
    CHECK(field("seed") == std::to_string(cell.seed));
    CHECK(field("state") == NameOf(cell.state));
    CHECK(field("reason").empty() == cell.reason.empty());
    CHECK(field("steps") == std::to_string(cell.step));
    CHECK(field("steps_to_threshold") ==
          (cell.steps_to_threshold ? std::to_string(*cell.steps_to_threshold) : ""));
    CHECK(field("solved") == (cell.threshold == 0        ? ""
                              : !cell.steps_to_threshold ? "false"
                                                         : "true"));
    CHECK(field("parameters").empty() == (cell.model.num_parameters == 0));
    CHECK(field("device") == "Example GPU");
    CHECK(std::stod(field("wall_s")) == cell.wall_s);
    CHECK(field("energy_j").empty());  // these do not know it
    CHECK(field("best_validation_accuracy").empty() == cell.learning_curve.empty());
    CHECK(field("peak_memory_bytes").empty() == cell.throughput.empty());
  }
}

TEST_CASE("csv-timings: a line for each sample, with the clocks of its row") {
  const CellResult cell = ExampleCell();
  const auto rows = ReadCsv(RenderTimingsCsv(MakeSweepReport("s", {}, {cell})));
  const auto reasons = ColumnOf(rows, "throttle");
  const auto dropped = ColumnOf(rows, "throttled_samples_dropped");
  const auto joules = ColumnOf(rows, "energy_j");
  std::size_t at = 0;
  for (const ThroughputRow& row : cell.throughput) {
    for (std::size_t i = 0; i < row.samples_ms.size(); ++i, ++at) {
      const bool is_slowed = row.throttled_samples_dropped > 0;
      CHECK(reasons.at(at) == (is_slowed ? "sw_power_cap sw_thermal_slowdown" : ""));
      CHECK(dropped.at(at) == (is_slowed ? "2" : "0"));
      CHECK(joules.at(at) == (is_slowed ? "812.5" : ""));
    }
  }
  CHECK(at == rows.size() - 1);
}

TEST_CASE("csv-groups: one row for each group and segment, as the summary has it") {
  const SweepReport report = MakeSweepReport("s", RateChoice(), ExampleSweep(5));
  const auto rows = ReadCsv(RenderGroupsCsv(report));
  CHECK(std::set<std::string>(rows[0].begin(), rows[0].end()).size() == rows[0].size());
  std::size_t at = 0;
  for (const GroupSummary& group : report.groups) {
    for (std::size_t s = 0; s < std::max<std::size_t>(1, group.accuracy.size()); ++s, ++at) {
      const auto field = [&](const char* name) { return ColumnOf(rows, name).at(at); };
      CHECK(field("group_id") == group.group_id);
      CHECK(field("num_seeds") == std::to_string(group.seeds.size()));
      CHECK(field("selected").empty() == !group.selection.has_value());
      CHECK(field("solve_rate_wilson_low").empty() == !group.solve_rate.has_value());
      if (group.solve_rate) {
        CHECK(field("num_solved") == std::to_string(group.solve_rate->num_solved));
        CHECK(std::stod(field("solve_rate_wilson_high")) == group.solve_rate->ci.high);
        CHECK(field("steps_to_threshold_num_censored") ==
              std::to_string(group.steps_to_threshold->num_censored));
      }
      if (group.accuracy.empty()) continue;
      const AccuracyOverSeeds& row = group.accuracy[s];
      CHECK(field("bucket") == row.bucket);
      CHECK(std::stod(field("accuracy_mean")) == *row.mean);
      CHECK(std::stod(field("ci_seeds_low")) == row.ci_seeds->low);
      CHECK(field("ci_items_low").empty());  // of an only seed
      CHECK(field("num_imputed") == (AnyImputed(row) ? "1" : "0"));
    }
  }
  CHECK(rows.size() == at + 1);
}

TEST_CASE("csv: an axis with the name of a column has one of its own") {
  CellResult cell = ExampleCell();
  for (AccuracyRow& row : cell.accuracy) row.axes["variant"] = "copy";
  for (const auto& render : {RenderAccuracyCsv, RenderGroupsCsv}) {
    const auto rows = ReadCsv(render(MakeSweepReport("s", {}, {cell})));
    CHECK(std::set<std::string>(rows[0].begin(), rows[0].end()).size() == rows[0].size());
    CHECK(ColumnOf(rows, "variant").front() == "d_model=128");
    CHECK(ColumnOf(rows, "axis.variant").front() == "copy");
  }
}

TEST_CASE("csv: hostile names survive as fields") {
  for (const auto& render : {RenderAccuracyCsv, RenderCellsCsv, RenderGroupsCsv}) {
    const auto rows = ReadCsv(render(Hostile()));
    for (const auto& row : rows) {
      REQUIRE(row.size() == rows[0].size());
      for (const std::string& field : row) CHECK(field.find_first_of("=+@") != 0);
    }
  }
}

}  // namespace mixerbench::reports
