// Where the time went, and what ran.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "reports/summary/sweep_report.h"
#include "reports/testing/test_cells.h"
#include "reports/view/mixer_list.h"
#include "reports/view/plan_table.h"
#include "reports/view/report_page.h"
#include "reports/view/sentences.h"
#include "reports/view/tables.h"
#include "reports/view/time_table.h"

#include "tests/support/catch2.h"

namespace mixerbench::reports {

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
  const auto table = TimeTable(report, MixerList({&report}));
  REQUIRE(table);
  const auto texts = [&](std::size_t row) {
    std::vector<std::string> found;
    for (const Datum& datum : table->rows[row].cells) found.push_back(datum.text);
    return found;
  };
  // Train, validation, test, set-up, capture, checkpoint, milliseconds a step.
  CHECK(texts(0) == std::vector<std::string>{"Attention", "mqar", "1", "0", "1.0", "2.0", "3.0",
                                             "0.2", "0.5", "4.0", "–"});
  CHECK(texts(1) == std::vector<std::string>{"GLA", "mqar", "2", "400", "2.0", "4.0", "6.0", "0.5",
                                             "1.0", "8.0", "5.00"});
}

TEST_CASE("time: a training whose weights several cells use counts once") {
  std::vector<CellResult> cells;
  for (int i = 0; i < 3; ++i) {
    CellResult cell;
    cell.name = "mqar/gla/test=" + std::to_string(i);
    cell.kind = "train";
    cell.group_id = cell.run_id = cell.name;
    cell.training_id = "sha256:t";
    cell.state = CellState::kCompleted;
    cell.step = 100;
    cell.wall_s = 10;
    cell.energy_j = 3.6e6;
    cell.phases = PhaseTimes{.setup_s = 1, .train_s = 6, .validation_s = 1, .test_s = 2};
    cell.learning_curve.push_back(
        {.step = 100, .train_loss = 1, .validation_accuracy = {}, .elapsed_s = 8});
    cell.weights = KeptWeights{.sha256 = "sha256:w", .reused = i != 1};
    cells.push_back(std::move(cell));
  }
  const SweepReport report = MakeSweepReport("s", {}, cells);
  const auto rows = TimesByMixer(report);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].num_steps == 100);
  CHECK(rows[0].phases.train_s == 6);
  CHECK(rows[0].phases.setup_s == 1);
  CHECK(rows[0].phases.test_s == 6);
  CHECK(std::abs(rows[0].energy_j.value() - 1.4 * 3.6e6) < 1);
  CHECK(std::abs(TotalEnergy(report).value() - 1.4 * 3.6e6) < 1);
  const Page page = MakeReportPage(report);
  const auto time = std::find_if(page.facts.begin(), page.facts.end(),
                                 [](const Fact& fact) { return fact.term == "Computing time"; });
  REQUIRE(time != page.facts.end());
  CHECK(time->text == "14.0 s");
}

TEST_CASE("time: energy of a mixer is known when that of all its cells is") {
  std::vector<CellResult> cells;
  for (const auto& [name, joules] : {std::pair{"mqar/gla/lr=0.1", std::optional(3.6e6)},
                                     {"mqar/gla/lr=0.2", 1.8e6},
                                     {"mqar/attention/lr=0.1", std::nullopt},
                                     {"mqar/attention/lr=0.2", 7e6}}) {
    CellResult cell;
    cell.name = name;
    cell.phases.emplace();
    cell.energy_j = joules;
    cell.wall_s = 9;
    cells.push_back(cell);
  }
  const SweepReport report = MakeSweepReport("s", {}, cells);
  const auto table = TimeTable(report, MixerList({&report}));
  REQUIRE(table);
  CHECK(table->columns.back().label == "kWh");
  CHECK_THAT(table->note, Catch::EndsWith("cells that run at the same time."));  // no sum
  CHECK(table->rows[0].cells.back().text == "–");                                // of attention
  CHECK(table->rows[1].cells.back().text == "1.50");
  std::vector<CellResult> known(cells.begin(), cells.begin() + 2);
  known.resize(4, known.front());
  known[2].name = "mqar/gla/timed";
  known[2].phases.reset();
  known[3].name = "mqar/gla/planned";
  known[3].energy_j.reset();
  known[3].wall_s = 0;
  known[3].phases.reset();
  const SweepReport whole = MakeSweepReport("s", {}, known);
  CHECK_THAT(TimeTable(whole, MixerList({&whole}))->note,
             Catch::EndsWith("All cells, timings too: 2.50 kWh."));
  cells.erase(cells.begin() + 3);  // what is left of attention knows nothing, as on the CPU
  cells.erase(cells.begin(), cells.begin() + 2);
  const SweepReport of_cpu = MakeSweepReport("s", {}, cells);
  CHECK(TimeTable(of_cpu, MixerList({&of_cpu}))->columns.back().label == "ms per step");
}

TEST_CASE("time: a timing says why clocks were low and what was dropped") {
  CellResult cell = ExampleCell();
  const SweepReport report = MakeSweepReport("s", {}, {cell});
  CHECK(ThrottleText(cell.throughput[0]).empty());
  CHECK(ThrottleText(cell.throughput[1]) ==
        "sw_power_cap, sw_thermal_slowdown; 2 of 12 samples dropped");
  const auto table = TimingTable(report, MixerList({&report}));
  REQUIRE(table);
  CHECK(table->columns.back().label == "Lower clocks");
  std::size_t num_said = 0;
  for (const Row& row : table->rows) {
    REQUIRE(row.cells.size() == table->columns.size());
    num_said += row.cells.back().text == ThrottleText(cell.throughput[1]);
  }
  CHECK(num_said == 1);
  const auto care = CareOf(report, {});
  CHECK(std::any_of(care.begin(), care.end(), [](const Sentence& sentence) {
    return sentence.text.starts_with("in 1 timing: 2 samples dropped");
  }));
  for (ThroughputRow& row : cell.throughput) row.throttle.reset();
  const SweepReport unknown = MakeSweepReport("s", {}, {cell});
  CHECK(TimingTable(unknown, MixerList({&unknown}))->columns.back().label == "Parity");
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

}  // namespace mixerbench::reports
