// SPDX-License-Identifier: Apache-2.0
#include "reports/summary/sweep_report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/sha256.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "reports/result/result_json.h"
#include "reports/statistics/statistics.h"
#include "reports/summary/axis_keys.h"
#include "reports/summary/deep_check.h"
#include "reports/summary/select.h"
#include "reports/testing/test_cells.h"
#include "reports/view/mixer_list.h"
#include "reports/view/sentences.h"
#include "reports/view/study.h"

#include "tests/support/catch2.h"

namespace mixerbench::reports {
namespace {

// One seed with one segment per accuracy, at 64, 128, ... tokens; negative: the cell diverged.
CellResult Seed(std::uint64_t seed, const std::vector<double>& accuracies,
                std::int64_t steps = 100) {
  CellResult cell;
  cell.name = "mqar/gla/x";
  cell.group_id = "sha256:g";
  cell.run_id = "sha256:" + std::to_string(seed);
  cell.kind = "train";
  cell.seed = seed;
  cell.threshold = 0.95;
  cell.state = CellState::kCompleted;
  if (steps > 0) cell.steps_to_threshold = steps;
  std::int64_t length = 64;
  for (const double accuracy : accuracies) {
    if (accuracy < 0) {
      cell.state = CellState::kDiverged;
      cell.reason = "loss was NaN at step 7";
      cell.steps_to_threshold.reset();
      break;
    }
    AccuracyRow row;
    row.axes = {{"input_seq_len", length}};
    row.accuracy = accuracy;
    row.ci_items = Interval{"beta", 0.95, accuracy / 2, 1};
    row.chance = 0.01;
    cell.accuracy.push_back(row);
    length *= 2;
  }
  return cell;
}

GroupSummary Group(std::vector<CellResult> cells) {
  const SweepReport report = MakeSweepReport("s", Value(), std::move(cells));
  REQUIRE(report.groups.size() == 1);
  return report.groups[0];
}

// A group of one seed that differs from the others in train.lr and perhaps in model.d_model.
CellResult Setting(double lr, std::int64_t d_model, std::optional<double> validation) {
  CellResult cell = Seed(0, {0.5});
  const std::string point = std::to_string(lr) + "," + std::to_string(d_model);
  cell.name = "mqar/gla/lr=" + point;
  cell.group_id = cell.run_id = "sha256:" + point;
  cell.config = Object{{"train", Object{{"lr", lr}}}, {"model", Object{{"d_model", d_model}}}};
  cell.learning_curve = {{.step = 10, .train_loss = 1, .validation_accuracy = 0.99}};
  cell.learning_curve.push_back({.step = 20, .train_loss = 1, .validation_accuracy = validation});
  return cell;
}

TEST_CASE("sweep: select keeps the best setting by its last validation accuracy") {
  const Value suite = RateChoice();
  CellResult failed = Setting(0.4, 16, 0.95);
  failed.state = CellState::kDiverged;
  const SweepReport report =
      MakeSweepReport("s", suite,
                      {Setting(0.1, 16, 0.5), Setting(0.2, 16, 0.8), Setting(0.3, 16, 0.8), failed,
                       Setting(0.1, 32, 0.1)});
  std::vector<std::string> selected;
  for (const GroupSummary& group : report.groups) {
    REQUIRE(group.selection);
    if (group.selection->selected) selected.push_back(group.name);
  }
  CHECK(selected == std::vector<std::string>{"mqar/gla/lr=0.100000,32", "mqar/gla/lr=0.200000,16"});
  CHECK(report.groups.back().selection->score == 0);  // the one that failed
  CHECK(DumpSweep(ParseSweep(DumpSweep(report), "r")) == DumpSweep(report));
  CHECK_FALSE(MakeSweepReport("s", Object{}, {Setting(0.1, 16, 0.5)}).groups[0].selection);
}

TEST_CASE(
    "sweep: nothing is selected between groups of different seeds, or while some are missing") {
  const Value suite = RateChoice();
  const auto seeds = [](double lr, double validation, const std::vector<std::uint64_t>& numbers,
                        CellState state = CellState::kCompleted) {
    std::vector<CellResult> cells;
    for (const std::uint64_t seed : numbers) {
      cells.push_back(Setting(lr, 16, validation));
      cells.back().seed = seed;
      cells.back().run_id += " " + std::to_string(seed);
      cells.back().state = state;
    }
    return cells;
  };
  const auto undecided = [&](std::vector<CellResult> a, const std::vector<CellResult>& b) {
    a.insert(a.end(), b.begin(), b.end());
    const SweepReport report = MakeSweepReport("s", suite, std::move(a));
    std::string reason;
    for (const GroupSummary& group : report.groups) {
      CHECK(group.selection.has_value());
      if (!group.selection) continue;
      if (!group.selection->undecided.empty()) CHECK_FALSE(group.selection->selected);
      reason = group.selection->undecided;
    }
    // Undecided settings are all shown.
    std::size_t shown = 0;
    for (const Study& study : StudiesOf(report, MixerList({&report}))) {
      for (const auto& [place, cell] : study.cells) shown += cell.shown != nullptr ? 1 : 0;
    }
    CHECK(shown == (reason.empty() ? 1 : report.groups.size()));
    return reason;
  };
  const auto three = seeds(0.1, 0.7, {0, 1, 2});
  CHECK(undecided(three, seeds(0.2, 0.9, {0, 1, 2})) == "");
  CHECK(undecided(three, seeds(0.2, 0.9, {0})) ==
        "mqar/gla/lr=0.200000,16 and mqar/gla/lr=0.100000,16 have different seeds");
  auto one = seeds(0.2, 0.9, {0});
  const auto planned = seeds(0.2, 0, {1, 2}, CellState::kPlanned);
  one.insert(one.end(), planned.begin(), planned.end());
  CHECK(undecided(three, one) == "mqar/gla/lr=0.200000,16 lacks 2 of 3 seeds");
}

TEST_CASE("sweep: nothing is selected between trainings with different batches") {
  const auto setting = [](double lr, std::int64_t batch_size) {
    CellResult cell = Setting(lr, 16, lr);
    cell.config.as_object()["train"].as_object()["batch_size"] = batch_size;
    if (batch_size < 8) cell.halved_from = 8;
    return cell;
  };
  const auto report = [&](std::int64_t of_first, std::int64_t of_second) {
    return MakeSweepReport("s", RateChoice(), {setting(0.1, of_first), setting(0.2, of_second)});
  };
  for (const GroupSummary& group : report(8, 4).groups) {
    CHECK_FALSE(group.selection->selected);
    CHECK(group.selection->undecided ==
          "mqar/gla/lr=0.200000,16 trained with batches of 4, not of 8: memory lacked");
  }
  CHECK_FALSE(report(4, 8).groups[0].selection->undecided.empty());
  CHECK_FALSE(report(4, 2).groups[1].selection->undecided.empty());
  const SweepReport alike = report(4, 4);  // memory lacked for both
  CHECK_FALSE(alike.groups[0].selection->selected);
  CHECK(alike.groups[1].selection->selected);
}

TEST_CASE("sweep: two builds of one setting do not compete, and care says so") {
  const auto of_build = [](double lr, const std::string& build, double validation) {
    CellResult cell = Setting(lr, 16, validation);
    cell.group_id = cell.run_id += build;
    return cell;
  };
  const SweepReport report = MakeSweepReport("s", RateChoice(),
                                             {of_build(0.1, "a", 0.5), of_build(0.2, "a", 0.8),
                                              of_build(0.1, "b", 0.9), of_build(0.2, "b", 0.7)});
  for (const GroupSummary& group : report.groups) {
    CHECK_FALSE(group.selection->selected);
    CHECK(group.selection->undecided == "mqar/gla/lr=0.100000,16 is there twice, of two builds");
  }
  std::vector<std::string> care;
  for (const Sentence& sentence : CareOf(report, StudiesOf(report, MixerList({&report})))) {
    care.push_back(sentence.lead + " " + sentence.text);
  }
  CHECK(care[0] == "Nothing is chosen yet: mqar/gla/lr=0.100000,16 is there twice, of two builds.");
  CHECK(care[1].starts_with("Not shown, mqar: "));
}

TEST_CASE("sweep: rebuilt from its own text, or from shuffled cells, it has the same bytes") {
  const SweepReport report = MakeSweepReport("mqar-length", Object{{"seeds", 3}}, ExampleSweep());
  const std::string text = DumpSweep(report);
  CHECK(DumpSweep(ParseSweep(text, "report.json")) == text);
  std::vector<CellResult> shuffled = ExampleSweep();
  std::reverse(shuffled.begin(), shuffled.end());
  std::rotate(shuffled.begin(), shuffled.begin() + 5, shuffled.end());
  CHECK(DumpSweep(MakeSweepReport("mqar-length", Object{{"seeds", 3}}, shuffled)) == text);
}

TEST_CASE("sweep: a failed seed counts as chance, is flagged and is unsolved") {
  const GroupSummary group = Group({Seed(1, {0.9}), Seed(2, {-1}), Seed(3, {0.8}, 300)});
  CHECK(group.states.at("completed") == 2);
  CHECK(group.states.at("diverged") == 1);
  CHECK(group.solve_rate->num_solved == 2);
  CHECK(group.solve_rate->num_seeds == 3);
  CHECK(group.solve_rate->ci.low == Wilson(2, 3).low);
  REQUIRE(group.accuracy.size() == 1);
  const AccuracyOverSeeds& row = group.accuracy[0];
  CHECK(row.per_seed == std::vector<std::optional<double>>{0.9, 0.01, 0.8});
  CHECK(row.imputed == std::vector<bool>{false, true, false});
  CHECK(*row.mean == Approx((0.9 + 0.01 + 0.8) / 3));
  CHECK(*row.median == 0.8);
  CHECK(*row.min == 0.01);
  CHECK(row.state == CellState::kDiverged);
  CHECK(row.reason == "loss was NaN at step 7");
}

TEST_CASE("sweep: a seed that never ran is listed and not counted") {
  CellResult planned = Seed(2, {});
  planned.state = CellState::kInterrupted;
  const GroupSummary group = Group({Seed(1, {0.9}), planned});
  CHECK(group.seeds == std::vector<std::uint64_t>{1});
  CHECK(group.states.at("interrupted") == 1);
  CHECK(*group.accuracy[0].mean == 0.9);
  CHECK_FALSE(group.accuracy[0].ci_seeds.has_value());
}

TEST_CASE("sweep: a segment that ran out of memory counts as chance, one not run as nothing") {
  CellResult oom = Seed(1, {0.9, 0.9});
  oom.accuracy[1].state = CellState::kOom;
  oom.accuracy[1].reason = "requested 2 GiB";
  oom.accuracy[1].accuracy.reset();
  const GroupSummary group = Group({oom, Seed(2, {0.8})});
  const AccuracyOverSeeds& row = group.accuracy[1];
  CHECK(row.per_seed == std::vector<std::optional<double>>{0.01, std::nullopt});
  CHECK(row.imputed == std::vector<bool>{true, false});
  CHECK(row.reason == "requested 2 GiB");
}

TEST_CASE("sweep: what an evaluation lacks takes nothing from the rows that it has") {
  for (const CellState state : {CellState::kUnsupported, CellState::kOom}) {
    CAPTURE(state);
    CellResult cell = Seed(1, {0.9, 0.9});
    cell.kind = "evaluate";
    cell.accuracy[1].state = cell.state = state;
    cell.accuracy[1].reason = "too long";
    cell.accuracy[1].accuracy.reset();
    const GroupSummary group = Group({cell});
    REQUIRE(group.accuracy.size() == 2);
    CHECK(group.accuracy[0].mean == 0.9);
    CHECK(group.accuracy[0].imputed == std::vector<bool>{false});
    CHECK(group.accuracy[1].imputed == std::vector<bool>{state == CellState::kOom});
    CHECK(group.accuracy[1].state == state);
    CHECK(group.accuracy[1].reason == "too long");
  }
}

TEST_CASE("sweep: the mean has an interval from five seeds on, one seed has that of its items") {
  std::vector<CellResult> cells;
  for (std::uint64_t seed = 0; seed < 9; ++seed) {
    cells.push_back(Seed(seed, {0.9 + 0.01 * static_cast<double>(seed)}));
    const AccuracyOverSeeds row = Group(cells).accuracy[0];
    CAPTURE(seed);
    CHECK(row.ci_seeds.has_value() == (cells.size() >= 5));
    CHECK(row.ci_items.has_value() == (cells.size() == 1));
    CHECK(*row.max == 0.9 + 0.01 * static_cast<double>(seed));
    if (!row.ci_seeds) continue;
    CHECK(row.ci_seeds->method == "beta");
    CHECK(row.ci_seeds->low < *row.mean);
    CHECK(row.ci_seeds->high > *row.mean);
  }
}

TEST_CASE("sweep: what the first seed could not say, another one does") {
  CellResult lost = Seed(1, {-1});
  lost.threshold = 0;  // as older versions wrote of a cell that failed before it trained
  const GroupSummary group = Group({lost, Seed(2, {0.9}), Seed(3, {0.9}, 300)});
  REQUIRE(group.solve_rate);
  CHECK(group.solve_rate->num_solved == 2);
  CHECK(group.solve_rate->num_seeds == 3);
  REQUIRE(group.steps_to_threshold);
  CHECK(group.steps_to_threshold->per_seed ==
        std::vector<std::optional<std::int64_t>>{std::nullopt, 100, 300});
  CHECK(group.steps_to_threshold->median == 300.0);
}

TEST_CASE("sweep: a group of failures has the rows that were asked for") {
  CellResult failed = Seed(1, {0.9, 0.9});
  failed.state = CellState::kOom;
  failed.reason = "requested 2 GiB";
  for (AccuracyRow& row : failed.accuracy) {
    row.accuracy.reset();
    row.state = failed.state;
    row.reason = failed.reason;
  }
  const GroupSummary group = Group({failed});
  REQUIRE(group.accuracy.size() == 2);
  CHECK(*group.accuracy[1].mean == 0.01);
  CHECK(group.accuracy[1].imputed == std::vector<bool>{true});
  CHECK(group.solve_rate->num_solved == 0);
}

TEST_CASE("sweep: limited cells are told from full ones") {
  CellResult limited = Seed(1, {0.9});
  CHECK_FALSE(Group({limited}).partial);
  limited.partial = true;
  CHECK(Group({limited}).partial);
}

TEST_CASE("sweep: guesses of a segment stand in its row") {
  CellResult cell = Seed(1, {0.9});
  cell.accuracy[0].guesses = {{"uniform", 0.01}, {"some value", 0.25}};
  const SweepReport report = MakeSweepReport("s", Value(), {cell});
  CHECK(report.groups[0].accuracy[0].guesses == cell.accuracy[0].guesses);
  CHECK(DumpSweep(ParseSweep(DumpSweep(report), "r")) == DumpSweep(report));
}

TEST_CASE("sweep: censored seeds rank last in the median of steps") {
  const auto median = [](const std::vector<std::int64_t>& steps) {
    std::vector<CellResult> cells;
    for (const std::int64_t s : steps) cells.push_back(Seed(cells.size(), {0.9}, s));
    return Group(cells).steps_to_threshold->median;
  };
  CHECK(median({300, 100, 200}) == 200.0);
  CHECK(median({100, 200}) == 150.0);
  CHECK(median({0, 100, 200}) == 200.0);
  CHECK_FALSE(median({0, 0, 200}).has_value());
  CHECK_FALSE(median({0, 200}).has_value());
}

// As Seed, with accuracies that their intervals bound `margin` lower.
CellResult Bounded(std::uint64_t seed, const std::vector<double>& accuracies,
                   double margin = 0.01) {
  CellResult cell = Seed(seed, accuracies);
  for (AccuracyRow& row : cell.accuracy) {
    row.ci_items = Interval{"beta", 0.95, *row.accuracy - margin, 1};
  }
  return cell;
}

TEST_CASE("sweep: effective length needs the lower bound of a seed at every shorter length") {
  const auto effective = [](std::vector<CellResult> cells) {
    return *Group(std::move(cells)).effective_length;
  };
  CHECK(effective({Bounded(1, {0.99, 0.98, 0.5})}).median == 128);
  CHECK(effective({Bounded(1, {0.99, 0.5, 0.99})}).median == 64);
  CHECK(effective({Bounded(1, {0.99, 0.905, 0.99})}).median == 64);  // its bound is 0.895
  CHECK_FALSE(effective({Bounded(1, {0.5})}).median.has_value());
  CHECK_FALSE(effective({Bounded(1, {0.5})}).reason.empty());
  // Over seeds the lower median; a seed that failed holds nowhere.
  const EffectiveLength three =
      effective({Bounded(1, {0.99, 0.98, 0.95}), Bounded(2, {0.99, 0.98}), Seed(3, {-1})});
  CHECK(three.per_seed == std::vector<std::optional<std::int64_t>>{256, 128, std::nullopt});
  CHECK(three.median == 128);
  CHECK(effective({Bounded(1, {0.99, 0.98}), Bounded(2, {0.99})}).median == 64);
  CHECK_FALSE(effective({Bounded(1, {0.99}), Seed(2, {-1})}).median.has_value());
  // Older versions' intervals do not hold.
  CellResult old = Bounded(1, {0.99});
  old.accuracy[0].ci_items->method = "cluster-robust";
  CHECK_FALSE(effective({old}).median.has_value());
}

// Computes the checksum as docs/REPORT_SCHEMA.md says, apart from the code under test.
Value Sealed(Value document) {
  Object& members = document.as_object();
  members.erase("integrity");
  Value content = document;
  for (Value& cell : content.as_object()["cells"].as_array()) {
    const Value checksum = *cell.Find("integrity")->Find("content_sha256");
    cell = checksum;
  }
  members["integrity"] = Object{{"content_sha256", "sha256:" + Sha256Hex(io::DumpJson(content))}};
  return document;
}

TEST_CASE("sweep: summaries of a later minor version and of another rounding are accepted") {
  Value document = SweepToValue(MakeSweepReport("s", Value(), ExampleSweep()));
  Value& aggregate = document.as_object()["groups"].as_array()[0].as_object()["aggregate"];
  Value& row = aggregate.as_object()["accuracy_by_length"].as_array()[0];
  const double mean = row.Find("mean")->as_double();
  row.as_object()["mean"] = std::nextafter(mean, 0.0);
  CHECK_NOTHROW(ParseSweep(io::DumpJson(Sealed(document)), "report.json"));
  row.as_object()["mean"] = mean - 0.01;
  CHECK_THROWS_AS(ParseSweep(io::DumpJson(Sealed(document)), "report.json"), Error);
  aggregate.as_object()["something_new"] = 1;
  document.as_object()["schema_version"] = "1.99.0";
  CHECK_NOTHROW(ParseSweep(io::DumpJson(Sealed(document)), "report.json"));
}

TEST_CASE("sweep: a report of schema 1.2 is read and summarised by the rules of today") {
  const SweepReport report =
      ParseSweep(io::ReadFile("reports/testing/golden/report-1.2.0.json"), "report-1.2.0.json");
  REQUIRE(report.groups.size() == 1);
  const GroupSummary& group = report.groups.front();
  REQUIRE(group.seeds.size() == 2);
  // Its file has Student's interval of two seeds, and an effective length of 32 by it.
  CHECK_FALSE(group.accuracy.front().ci_seeds);
  CHECK(*group.accuracy.front().min == 0.999);
  CHECK(group.accuracy.front().guesses.empty());
  CHECK_FALSE(group.effective_length->median);
  CHECK(DumpSweep(ParseSweep(DumpSweep(report), "r")) == DumpSweep(report));
}

TEST_CASE("sweep: edited summaries of schema 1.2 are found, those of rules of its own are not") {
  const auto with = [](const char* key, const Value& value) {
    Value document =
        io::ParseJson(io::ReadFile("reports/testing/golden/report-1.2.0.json"), io::kReportLimits);
    Value& aggregate = document.as_object()["groups"].as_array()[0].as_object()["aggregate"];
    aggregate.as_object()["accuracy_by_length"].as_array()[0].as_object()[key] = value;
    return io::DumpJson(Sealed(document));
  };
  CHECK_NOTHROW(ParseSweep(with("ci_seeds", Value()), "r"));
  CHECK_THROWS_WITH(ParseSweep(with("mean", 0.5), "r"), Catch::Contains("/groups: the summaries"));
}

TEST_CASE("sweep: edited summaries, damaged cells and other majors are refused") {
  const Value good = SweepToValue(MakeSweepReport("s", Value(), ExampleSweep()));
  const auto failure = [](const Value& document) -> std::string {
    try {
      ParseSweep(io::DumpJson(document), "report.json");
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::kBadInput);
      return error.what();
    }
    return "accepted";
  };
  CHECK(failure(good) == "accepted");
  Value bad = good;
  bad.as_object()["groups"].as_array().pop_back();
  CHECK_THAT(failure(bad), Catch::StartsWith("report.json: /integrity/content_sha256: "));
  // A forger who knows how to seal a document is still asked for the right summaries.
  CHECK_THAT(failure(Sealed(bad)), Catch::StartsWith("report.json: /groups: "));
  CHECK(failure(Sealed(good)) == "accepted");
  bad = good;
  bad.as_object()["cells"].as_array()[1].as_object()["partial"] = true;
  CHECK_THAT(failure(bad), Catch::StartsWith("report.json: /cells/1/time/document_sha256: "));
  bad = good;
  bad.as_object()["schema_version"] = "2.0.0";
  CHECK_THAT(failure(bad), Catch::Contains("this program reads 1.x"));
  CHECK_THAT(failure(Array{}), Catch::StartsWith("report.json: "));
}

TEST_CASE("sweep: a cell's name splits into task, mixer and variant") {
  CHECK(SplitCellName("mqar/gla/d=1,x=a/b").variant == "d=1,x=a/b");
  CHECK(SplitCellName("mqar/gla").mixer == "gla");
  CHECK(SplitCellName("mqar").task == "mqar");
}

TEST_CASE("sweep: a completed cell that lacks a test segment says so") {
  CellResult cell;
  cell.name = "mqar/gla";
  cell.kind = "train";
  cell.state = CellState::kCompleted;
  cell.config = Object{{"task", Object{{"test", Array{Object{{"input_seq_len", 64}},
                                                      Object{{"input_seq_len", 128}}}}}}};
  cell.accuracy.emplace_back().axes = {{"input_seq_len", 64}};
  const SweepReport report = MakeSweepReport("s", Value(), {cell});
  CHECK(report.cells[0].state == CellState::kError);
  CHECK(report.cells[0].reason == "its result has 1 of 2 test segments");
  cell.accuracy.emplace_back().axes = {{"input_seq_len", 128}};
  CHECK(MakeSweepReport("s", Value(), {cell}).cells[0].state == CellState::kCompleted);
}

TEST_CASE("sweep: aggregates inside cells are recomputed") {
  CellResult cell;
  cell.name = "mqar/gla";
  cell.kind = "train";
  cell.state = CellState::kCompleted;
  cell.threshold = 0.9;
  cell.steps_to_threshold = 20;
  cell.learning_curve = {{.step = 10, .train_loss = 1, .validation_accuracy = 0.5},
                         {.step = 20, .train_loss = 1, .validation_accuracy = 0.95}};
  AccuracyRow row;
  row.num_sequences = 100;
  row.num_scored = 400;
  row.num_correct = 300;
  row.accuracy = 0.75;
  row.accuracy_per_example = row.accuracy_macro = 0.7;
  row.sequence_accuracy = 0.5;
  row.ci_items = Interval{"beta", 0.95, 0.7, 0.8};
  row.ci_sequences = Wilson(50, 100);
  cell.accuracy = {row};
  ThroughputRow timing;
  timing.batch_size = 2;
  timing.seq_len = 100;
  timing.samples_ms = {1, 2, 4};
  timing.median_ms = 2;
  timing.tokens_per_second = 100'000;
  timing.parity_check = "passed";
  timing.parity = Parity{.passes = "forward",
                         .num_sequences = 2,
                         .num_tokens = 100,
                         .quantity = "hidden",
                         .error = 0.001,
                         .tolerance = 0.01};
  cell.throughput = {timing};
  cell.taps = {{.axes = {}, .tap = "gate", .path = "layers.0.gate", .reason = {}}};
  cell.taps[0].num_values = 4;
  cell.taps[0].mean = 0.5;
  cell.taps[0].std = 0.5;
  cell.taps[0].min = 0;
  cell.taps[0].max = 1;
  const auto faults = [](const CellResult& changed) {
    return DeepFaults(MakeSweepReport("s", Value(), {changed})).size();
  };
  CHECK(faults(cell) == 0);
  for (const auto& change : std::vector<void (*)(CellResult&)>{
           [](CellResult& c) { c.accuracy[0].num_correct = 301; },
           [](CellResult& c) { c.accuracy[0].ci_sequences->low += 0.01; },
           [](CellResult& c) {
             c.accuracy[0].guesses = {{"uniform", 0.5}};
           },
           [](CellResult& c) { c.accuracy[0].ci_items->low = 0.76; },
           [](CellResult& c) { c.accuracy[0].ci_items->low = -0.01; },
           [](CellResult& c) { c.accuracy[0].ci_items->high = 1.01; },
           [](CellResult& c) { c.accuracy[0].sequence_accuracy.reset(); },  // its interval stays
           [](CellResult& c) { c.accuracy[0].accuracy_per_example = 0.4; },
           [](CellResult& c) {
             c.accuracy[0].num_correct = 0;
             c.accuracy[0].accuracy = c.accuracy[0].accuracy_per_example = 0;
             c.accuracy[0].ci_items->low = 0;
             c.accuracy[0].sequence_accuracy = 0;
             c.accuracy[0].ci_sequences = Wilson(0, 100);  // and a macro accuracy above 0
           },
           [](CellResult& c) { c.steps_to_threshold = 10; },
           [](CellResult& c) { c.learning_curve.clear(); },
           [](CellResult& c) { c.throughput[0].parity->error = 0.02; },
           [](CellResult& c) { c.throughput[0].parity_check = "not run"; },
           [](CellResult& c) {
             c.throughput[0].parity_check = "failed";
             c.throughput[0].parity->error = std::nan("");
           },
           [](CellResult& c) { c.throughput[0].parity->num_sequences = 3; },
           [](CellResult& c) { c.throughput[0].parity->num_tokens = 101; },
           [](CellResult& c) { c.taps[0].mean = 1.5; },
           [](CellResult& c) { c.taps[0].std = 0.6; },
           [](CellResult& c) { c.taps[0].num_not_finite = 5; },
           [](CellResult& c) { c.taps[0].num_not_finite = 4; },
           [](CellResult& c) { c.taps[0].state = CellState::kSkipped; },
           [](CellResult& c) { c.throughput[0].median_ms = 1; },
           [](CellResult& c) { c.throughput[0].tokens_per_second = 1; }}) {
    CellResult changed = cell;
    change(changed);
    CHECK(faults(changed) > 0);
  }
  CellResult late = cell;
  late.throughput[0].state = CellState::kTimeout;
  late.throughput[0].median_ms.reset();
  late.throughput[0].parity_check = "not run";
  CHECK(faults(late) == 0);
  // Losses that are not finite take nothing from what was counted.
  cell.accuracy[0].state = CellState::kDiverged;
  cell.accuracy[0].reason = "a loss in this segment is not finite";
  CHECK(faults(cell) == 0);
  cell.accuracy[0].num_correct = 301;
  CHECK(faults(cell) > 0);
}

TEST_CASE("sweep: what a reader does not compare of another version's summaries is told") {
  CHECK(NotCompared(kSchemaVersion).empty());
  CHECK(NotCompared("1.3.0").empty());
  CHECK_THAT(NotCompared("1.2.0"), Catch::Contains("effective lengths"));
  CHECK_THAT(NotCompared("1.99.0"), Catch::Contains("summaries"));
}

// A cell of a setting, for a phase of a suite that reports two fresh seeds, 100 and 101.
CellResult Phased(double lr, std::uint64_t seed, double validation, CellPhase phase) {
  CellResult cell = Setting(lr, 16, validation);
  cell.seed = seed;
  cell.run_id += " " + std::to_string(seed);
  cell.phase = phase;
  cell.threshold = 0;  // its steps are no part of this
  cell.steps_to_threshold.reset();
  return cell;
}

Value ReseedingSuite() {
  return io::ParseJson(R"({"sweep": {"select": {"over": ["train.lr"], "by": "validation.accuracy",
                                                "reseed": {"count": 2, "base": 100}}}})");
}

std::vector<CellResult> Swept() {
  std::vector<CellResult> cells;
  for (const std::uint64_t seed : {0, 1}) {
    cells.push_back(Phased(0.1, seed, 0.7, CellPhase::kSelection));
    cells.push_back(Phased(0.2, seed, 0.9, CellPhase::kSelection));
  }
  return cells;
}

TEST_CASE("sweep: fresh seeds of what was chosen are a group of their own, and what is shown") {
  std::vector<CellResult> cells = Swept();
  cells.push_back(Phased(0.2, 100, 0.1, CellPhase::kReport));  // fresh seeds choose nothing
  cells.push_back(Phased(0.2, 101, 0.1, CellPhase::kReport));
  const SweepReport report = MakeSweepReport("s", ReseedingSuite(), std::move(cells));
  REQUIRE(report.groups.size() == 3);
  CHECK(report.groups[1].selection->selected);
  CHECK(report.groups[1].seeds == std::vector<std::uint64_t>{0, 1});
  CHECK(report.groups[2].phase == CellPhase::kReport);
  CHECK(report.groups[2].group_id == report.groups[1].group_id);
  CHECK_FALSE(report.groups[2].selection);
  CHECK(report.groups[2].seeds == std::vector<std::uint64_t>{100, 101});
  REQUIRE(report.reseeds.size() == 1);
  CHECK(report.reseeds[0].group_id == report.groups[2].group_id);
  CHECK(report.reseeds[0].num_settings == 2);
  CHECK(CountMissing(report) == 0);
  CHECK(DeepFaults(report).empty());

  const std::vector<Study> studies = StudiesOf(report, MixerList({&report}));
  REQUIRE(studies.size() == 1);
  CHECK(studies[0].Shown(0, 0) == &report.groups[2]);
  const std::vector<Fact> facts = SetupOf(studies[0]);
  CHECK(facts.back().text ==
        "chosen by 2 (0, 1); reported by fresh ones, 2 (100, 101), which chose nothing");
  for (const Sentence& care : CareOf(report, studies)) {
    CHECK(care.lead != "Chosen and reported on the same seeds:");
  }
  const std::string text = DumpSweep(report);
  CHECK(DumpSweep(ParseSweep(text, "r")) == text);
}

TEST_CASE("sweep: fresh seeds without a cell are missing, whether their setting is known or not") {
  const SweepReport chosen = MakeSweepReport("s", ReseedingSuite(), Swept());
  CHECK(CountMissing(chosen) == 2);
  CHECK(CountUnplanned(chosen) == 2);
  CHECK(SetupOf(StudiesOf(chosen, MixerList({&chosen}))[0]).back().text ==
        "chosen by 2 (0, 1); to be reported by fresh ones, 2 (100, 101), which chose nothing");
  CHECK_FALSE(chosen.reseeds[0].group_id.empty());
  CHECK(BannerOf(chosen)[0].text ==
        "2 of 6 planned cells have no result yet, 2 of them by fresh seeds of settings that "
        "validation chooses.");
  std::vector<CellResult> cells = Swept();
  cells[0].state = CellState::kPlanned;
  const SweepReport open = MakeSweepReport("s", ReseedingSuite(), std::move(cells));
  CHECK(CountMissing(open) == 3);
  CHECK(open.reseeds[0].group_id.empty());
}

TEST_CASE(
    "sweep: a deep check finds fresh seeds that chose, and reported ones that were not asked") {
  const auto num_faults = [](CellResult odd) {
    std::vector<CellResult> cells = Swept();
    cells.push_back(Phased(0.2, 100, 0.1, CellPhase::kReport));
    cells.push_back(std::move(odd));
    return DeepFaults(MakeSweepReport("s", ReseedingSuite(), std::move(cells))).size();
  };
  CHECK(num_faults(Phased(0.2, 101, 0.9, CellPhase::kReport)) == 0);
  CHECK(num_faults(Phased(0.2, 102, 0.9, CellPhase::kReport)) == 1);
  CHECK(num_faults(Phased(0.1, 101, 0.9, CellPhase::kReport)) == 1);
  // It competes with other seeds, so that nothing is chosen and nothing should be reported either.
  CHECK(num_faults(Phased(0.2, 7, 0.9, CellPhase::kNone)) == 2);
}

TEST_CASE("sweep: a merged plan selects where all of its suites select alike") {
  const Value rule = ReseedingSuite();
  CHECK(SelectRuleOf(Object{{"merged", Array{rule, rule}}}).fresh_seeds ==
        std::vector<std::uint64_t>{100, 101});
  CHECK(SelectRuleOf(Object{{"merged", Array{rule, Object{}}}}).over.empty());
  const Value other = io::ParseJson(
      R"({"sweep": {"select": {"over": ["train.lr"], "by": "validation.accuracy"}}})");
  CHECK(SelectRuleOf(Object{{"merged", Array{rule, other}}}).over.empty());
  CHECK(SelectRuleOf(other).fresh_seeds.empty());
}

TEST_CASE("sweep: built a hundred times from its cells in any order, a report has the same bytes") {
  std::vector<CellResult> cells = ExampleSweep();
  const std::string text = DumpSweep(MakeSweepReport("s", Object{}, cells));
  // A rotation and an exchange make every order.
  for (int i = 0; i < 100; ++i) {
    std::rotate(cells.begin(), cells.begin() + 1, cells.end());
    if (i % 3 != 0) std::swap(cells[0], cells[1]);
    REQUIRE(DumpSweep(MakeSweepReport("s", Object{}, cells)) == text);
  }
}

TEST_CASE("axes: the last word of a path, and as many as tell it from the others") {
  const Value suite = io::ParseJson(R"({"sweep": {
      "grid": {"task.train.num_kv_pairs": [4, 8], "train.lr": [0.1]},
      "zip": [{"task.test.num_kv_pairs": [4]}, {"task.num_kv_pairs": [1]}],
      "select": {"over": ["task.train.num_kv_pairs", "train.lr"], "by": "validation.accuracy"}}})");
  CHECK(AxisKeys(suite) ==
        std::map<std::string, std::string>{{"task.num_kv_pairs", "task.num_kv_pairs"},
                                           {"task.test.num_kv_pairs", "test.num_kv_pairs"},
                                           {"task.train.num_kv_pairs", "train.num_kv_pairs"},
                                           {"train.lr", "lr"}});
  CHECK(ChosenKeys(suite) == std::set<std::string>{"lr", "train.num_kv_pairs"});
  CHECK(ChosenKeys(Object{{"merged", Array{suite, suite}}}) == ChosenKeys(suite));
  CHECK(AxisKeys(Object{}).empty());
}

}  // namespace
}  // namespace mixerbench::reports
