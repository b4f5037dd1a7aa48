// What stands in one table when suites were merged, and that no result is left out without a word.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "reports/summary/sweep_report.h"
#include "reports/testing/test_cells.h"
#include "reports/view/cell_parts.h"
#include "reports/view/config_leaves.h"
#include "reports/view/mixer_list.h"
#include "reports/view/report_page.h"
#include "reports/view/sentences.h"
#include "reports/view/study.h"
#include "reports/view/tables.h"

#include "tests/support/catch2.h"

namespace mixerbench::reports {
namespace {

struct Asked {
  int length = 64;
  int width = 32;
  double rate = 0.001;
  std::string positions = "none";
  int batch_size = 512;
};

// "mqar/gla/lr=0.001" with a result; a group by itself.
CellResult Cell(const std::string& mixer, const std::string& variant, const Asked& asked,
                std::uint64_t seed = 0) {
  CellResult cell = TrainedCell("mqar/" + mixer + "/" + variant, seed);
  const auto segment = [&](int num_examples) {
    return Array{Object{{"input_seq_len", asked.length},
                        {"num_kv_pairs", asked.length / 16},
                        {"num_examples", num_examples}}};
  };
  cell.config =
      Object{{"task", Object{{"name", "mqar"}, {"test", segment(100)}, {"train", segment(1000)}}},
             {"model", Object{{"d_model", asked.width},
                              {"positions", asked.positions},
                              {"sequence_mixer", Object{{"name", mixer}}}}},
             {"train", Object{{"lr", asked.rate}, {"batch_size", asked.batch_size}}}};
  cell.group_id = cell.name + std::to_string(asked.length) + asked.positions;
  cell.run_id = cell.group_id + std::to_string(seed);
  AccuracyRow row;
  row.axes = {{"input_seq_len", asked.length}};
  row.num_sequences = row.num_scored = 1000;
  row.num_correct = 500;
  row.accuracy = 0.5;
  cell.accuracy.push_back(row);
  cell.threshold = 0.95;
  cell.step = 100;
  return cell;
}

Value Merged() { return Object{{"merged", Array{Object{{"name", "a"}}, Object{{"name", "b"}}}}}; }

// Two suites of MQAR: one of 128 tokens that names the rate, one of 64 that names positions too.
std::vector<CellResult> TwoSuites() {
  const Asked large{.length = 128, .width = 16};
  return {Cell("gla", "lr=0.001", large), Cell("sliding_window", "lr=0.001", large),
          Cell("gla", "positions=none,lr=0.001", {}), Cell("fox", "positions=none,lr=0.001", {}),
          Cell("attention", "positions=learned,lr=0.01", {.rate = 0.01, .positions = "learned"})};
}

std::size_t NumShown(const std::vector<Study>& studies) {
  std::size_t num_shown = 0;
  for (const Study& study : studies) {
    for (const auto& [place, cell] : study.cells) num_shown += cell.shown != nullptr ? 1 : 0;
  }
  return num_shown;
}

std::vector<std::string> Titles(const std::vector<Study>& studies) {
  std::vector<std::string> titles;
  for (const Study& study : studies) titles.push_back(study.title);
  return titles;
}

std::string CareText(const SweepReport& report, const std::string& lead) {
  for (const Sentence& care : CareOf(report, StudiesOf(report, MixerList({&report})))) {
    if (care.lead.starts_with(lead)) return care.lead + " " + care.text;
  }
  return "";
}

using Strings = std::vector<std::string>;

}  // namespace

TEST_CASE("Two suites of one task that differ in sizes are two studies", "[reports][view]") {
  const SweepReport report = MakeSweepReport("a + b", Merged(), TwoSuites());
  const MixerList mixers({&report});
  const std::vector<Study> studies = StudiesOf(report, mixers);
  CHECK(Titles(studies) ==
        Strings{"mqar (64 tokens, 4 pairs, d 32)", "mqar (128 tokens, 8 pairs, d 16)"});
  REQUIRE(studies.size() == 2);
  CHECK(studies[0].mixers.size() == 3);
  CHECK(studies[1].mixers.size() == 2);
  CHECK(NumShown(studies) == report.groups.size());
  const auto glance = GlanceOf(report, studies, mixers);
  CHECK((glance[0].lead + " " + glance[0].text)
            .starts_with("mqar (64 tokens, 4 pairs, d 32): 0 of 3 mixers solved"));
  // Rows of all cells are told apart by what only some names say.
  CHECK(VaryingKeys(report) == std::set<std::string>{"positions"});
}

TEST_CASE("Of merged suites each is shown as it can be run", "[reports][view]") {
  const SweepReport report =
      MakeSweepReport("a + b", Merged(), {Cell("gla", "lr=0.001", {}), Cell("fox", "", {})});
  std::vector<std::string> shown;
  for (const Code* code : BlocksOf<Code>(MakeReportPage(report).sections.back())) {
    shown.push_back(code->title);
    CHECK(code->text.find("merged") == std::string::npos);
  }
  CHECK(shown == std::vector<std::string>{"Suite a", "Suite b"});
}

TEST_CASE("Suites that differ in nothing but what names say are one study", "[reports][view]") {
  const std::vector<CellResult> cells = {
      Cell("gla", "d_model=32", {}), Cell("gla", "d_model=64", {.width = 64}),
      Cell("fox", "", {}),  // of a suite that does not vary the width
      Cell("attention", "", {.positions = "learned"})};
  const SweepReport report = MakeSweepReport("a + b", Merged(), cells);
  const std::vector<Study> studies = StudiesOf(report, MixerList({&report}));
  CHECK(Titles(studies) == Strings{"mqar"});
  REQUIRE(studies[0].settings.size() == 2);
  CHECK(studies[0].settings[0].text == "d 32");
  CHECK(studies[0].settings[1].text == "d 64");
  CHECK(NumShown(studies) == 4);
}

TEST_CASE("Of suites of one size that differ in a recipe the title says as much as it takes",
          "[reports][view]") {
  const auto titles = [](const std::vector<CellResult>& cells) {
    const SweepReport report = MakeSweepReport("a + b", Merged(), cells);
    return Titles(StudiesOf(report, MixerList({&report})));
  };
  std::vector<CellResult> cells = {Cell("gla", "", {}), Cell("fox", "", {})};
  CHECK(titles(cells) == Strings{"mqar"});
  cells[1].config.as_object()["device_type"] = "cuda";
  CHECK(titles(cells) == Strings{"mqar (no device_type)", "mqar (device_type cuda)"});
  cells[0] = Cell("gla", "", {.batch_size = 256});
  CHECK(titles(cells) == Strings{"mqar (batch 256)", "mqar (batch 512)"});
}

TEST_CASE("Within one suite every group has its place", "[reports][view]") {
  // One seed did not fit in memory and trained with half of the batch, as its name says.
  SweepReport report =
      MakeSweepReport("s", Object{},
                      {Cell("gla", "", {}), Cell("gla", "batch_size=256", {.batch_size = 256}, 1),
                       Cell("fox", "", {})});
  std::vector<Study> studies = StudiesOf(report, MixerList({&report}));
  REQUIRE(studies.size() == 1);
  CHECK(NumShown(studies) == 3);
  REQUIRE(studies[0].settings.size() == 2);
  CHECK(studies[0].settings[0].text == "batch 256");
  CHECK(studies[0].settings[1].text == "batch 512");

  // Two of one name, told apart by what their configs have.
  report = MakeSweepReport("s", Object{},
                           {Cell("gla", "", {}), Cell("gla", "", {.positions = "learned"}),
                            Cell("attention", "", {.positions = "learned"})});
  studies = StudiesOf(report, MixerList({&report}));
  CHECK(NumShown(studies) == 3);
  REQUIRE(studies[0].settings.size() == 2);
  CHECK(studies[0].settings[0].text == "positions learned");
  CHECK(CareText(report, "Not shown").empty());
}

TEST_CASE("Mixers of one name and other options in two suites are two", "[reports][view]") {
  using Labels = std::set<std::string>;
  const auto page = [](const std::vector<CellResult>& cells, Value config) {
    return MakeReportPage(MakeSweepReport("a + b", std::move(config), cells));
  };
  const auto labels = [](const Page& shown) {
    Labels found;
    for (const MixerStyle& style : shown.mixers) found.insert(style.label);
    return found;
  };
  const auto with_heads = [](CellResult cell, int num_heads) {
    Object& model = cell.config.as_object()["model"].as_object();
    model["sequence_mixer"].as_object()["num_heads"] = num_heads;
    cell.group_id += std::to_string(num_heads);
    cell.run_id += std::to_string(num_heads);
    return cell;
  };
  // As two variants are compared: in one task and model, by the same recipe or not.
  for (const double rate : {0.001, 0.01}) {
    const std::vector<CellResult> two = {with_heads(Cell("gla", "lr=0.001", {}), 2),
                                         with_heads(Cell("gla", "", {.rate = rate}), 4)};
    const Page shown = page(two, Merged());
    CHECK(labels(shown) == Labels{"GLA (num_heads=2)", "GLA (num_heads=4)"});
    for (const Sentence& care : shown.care) CHECK_FALSE(care.lead.starts_with("Not shown"));
    CHECK(labels(page(two, Object{})) == Labels{"GLA"});
  }
  // Heads that go with a width, and what names say.
  CHECK(labels(page(
            {with_heads(Cell("gla", "", {}), 2), with_heads(Cell("gla", "", {.width = 64}), 4)},
            Merged())) == Labels{"GLA"});
  CHECK(labels(page({with_heads(Cell("gla", "num_heads=2", {}), 2),
                     with_heads(Cell("gla", "num_heads=4", {}), 4)},
                    Merged())) == Labels{"GLA"});
}

TEST_CASE("What has no place in a table is named", "[reports][view]") {
  std::vector<CellResult> cells = {Cell("gla", "", {}), Cell("gla", "", {})};
  cells[1].group_id = cells[1].run_id = "other";
  const SweepReport report = MakeSweepReport("s", Object{}, cells);
  CHECK(CareText(report, "Not shown") ==
        "Not shown, mqar: mqar/gla/: another has the same mixer and setting.");
}

TEST_CASE("Fresh seeds that are not shown are counted", "[reports][view]") {
  std::vector<CellResult> cells = {Cell("gla", "lr=0.001", {})};
  cells[0].phase = CellPhase::kSelection;
  for (const std::uint64_t seed : {100, 101}) {
    cells.push_back(Cell("gla", "lr=0.001", {}, seed));
    cells.back().phase = CellPhase::kReport;
  }
  const SweepReport report = MakeSweepReport("a + b", Merged(), cells);
  CHECK(CareText(report, "Not shown") ==
        "Not shown, mqar: 2 results by fresh seeds, because the suites choose settings in "
        "different ways.");
}

TEST_CASE("A row says what its mixer has of its own", "[reports][view]") {
  const SweepReport report = MakeSweepReport(
      "s", Object{},
      {Cell("gla", "positions=none,lr=0.001", {}), Cell("fox", "positions=none,lr=0.001", {}),
       Cell("attention", "positions=learned,lr=0.01", {.rate = 0.01, .positions = "learned"})});
  const MixerList mixers({&report});
  const Study study = StudiesOf(report, mixers).front();
  Strings names;
  const Table table = AccuracyTables(study, mixers).front();
  for (const Row& row : table.rows) {
    names.push_back(row.cells[0].text + ": " + row.cells[0].sub);
  }
  std::sort(names.begin(), names.end());
  CHECK(names == Strings{"Attention: lr 1e-2, positions learned", "FoX: lr 1e-3, positions none",
                         "GLA: lr 1e-3, positions none"});
  for (const Fact& fact : SetupOf(study)) {
    if (fact.term == "Learning rate") CHECK(fact.text == "each mixer its own: 1e-3, 1e-2");
  }
}

TEST_CASE("A setting of many lengths has tables that fit on paper", "[reports][view]") {
  const auto tables_of = [](int num_lengths) {
    std::vector<CellResult> cells = {Cell("gla", "", {}), Cell("fox", "", {})};
    for (CellResult& cell : cells) {
      cell.steps_to_threshold = 50;
      const AccuracyRow row = cell.accuracy.front();
      cell.accuracy.clear();
      for (int length = 1; length <= num_lengths; ++length) {
        cell.accuracy.push_back(row);
        cell.accuracy.back().axes = {{"input_seq_len", length}};
      }
    }
    const SweepReport report = MakeSweepReport("s", Object{}, cells);
    const MixerList mixers({&report});
    return AccuracyTables(StudiesOf(report, mixers).front(), mixers);
  };
  CHECK(tables_of(14).size() == 1);
  const std::vector<Table> tables = tables_of(19);
  REQUIRE(tables.size() == 2);
  CHECK(tables[0].title == "Accuracy and speed of learning: 1 tokens to 9 tokens.");
  CHECK(tables[1].title == "Accuracy: 10 tokens to 19 tokens.");
  Strings lengths, rest;
  for (const Table& table : tables) {
    CHECK(table.rows.size() == 2);
    for (const Column& column : table.columns) {
      (column.label.ends_with(" tokens") ? lengths : rest).push_back(column.label);
    }
  }
  CHECK(lengths.size() == 19);
  CHECK(rest ==
        Strings{"Mixer", "Steps to 95 %", "Effective length", "Parameters", "State", "Mixer"});
}

TEST_CASE("The leaves of a config are its values by path", "[reports][view]") {
  const Leaves leaves = LeavesOf(Object{
      {"task", Object{{"test", Array{Object{{"n", 64}}, Object{{"n", 128}}, Object{{"n", 64}}}}}},
      {"model", Object{{"sequence_mixer", Object{{"width", 2}}}, {"width", 3}}}});
  CHECK(leaves == Leaves{{"model.sequence_mixer.width", "2"},
                         {"model.width", "3"},
                         {"task.test.n", "64/128"}});
  CHECK(LeafText(leaves, "width") == "3");
  CHECK(LeafText(leaves, "n") == "64/128");
  CHECK(LeafText(leaves, "depth").empty());
  CHECK(HasPart("model.sequence_mixer.width", "sequence_mixer"));
  CHECK_FALSE(HasPart("model.sequence_mixer.width", "mixer"));
}

}  // namespace mixerbench::reports
