// What a page says first: that it names the task, the size and all of those it holds for.
// SPDX-License-Identifier: Apache-2.0
#include "reports/view/sentences.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reports/summary/sweep_report.h"
#include "reports/testing/test_cells.h"
#include "reports/view/mixer_list.h"
#include "reports/view/study.h"
#include "reports/view/tables.h"

#include "tests/support/catch2.h"

namespace mixerbench::reports {
namespace {

struct Trained {
  std::string mixer;
  std::optional<std::int64_t> steps;
  double at_64 = 0.9;
  double at_256 = 0.5;
  std::string variant = "";
  std::string task = "mqar";
};

CellResult Cell(const Trained& trained, std::uint64_t seed = 0) {
  CellResult cell = TrainedCell(trained.task + "/" + trained.mixer + "/" + trained.variant, seed);
  cell.threshold = 0.95;
  cell.steps_to_threshold = trained.steps;
  cell.step = 1000;
  for (const auto& [length, accuracy] : {std::pair{64, trained.at_64}, {256, trained.at_256}}) {
    AccuracyRow row;
    row.axes = {{"input_seq_len", length}};
    row.num_sequences = row.num_scored = 1000;
    row.num_correct = static_cast<std::int64_t>(accuracy * 1000);
    row.accuracy = accuracy;
    row.extrapolated = length > 64;
    cell.accuracy.push_back(row);
  }
  cell.config = Object{{"model", Object{{"sequence_mixer", Object{{"name", trained.mixer}}}}}};
  return cell;
}

SweepReport ReportOf(const std::vector<Trained>& all, std::uint64_t num_seeds = 1) {
  std::vector<CellResult> cells;
  for (const Trained& trained : all) {
    for (std::uint64_t seed = 0; seed < num_seeds; ++seed) cells.push_back(Cell(trained, seed));
  }
  return MakeSweepReport("s", Object{}, std::move(cells));
}

// The first sentence whose lead has `part`; "" where there is none.
std::string GlanceText(const SweepReport& report, const std::string& part) {
  const MixerList mixers({&report});
  for (const Sentence& said : GlanceOf(report, StudiesOf(report, mixers), mixers)) {
    if (said.lead.find(part) != std::string::npos) return said.lead + " " + said.text;
  }
  return "";
}

std::string CareText(const SweepReport& report, const std::string& part) {
  for (const Sentence& care : CareOf(report, StudiesOf(report, MixerList({&report})))) {
    if (care.lead.find(part) != std::string::npos) return care.lead + " " + care.text;
  }
  return "";
}

std::string NoteText(const SweepReport& report) {
  const MixerList mixers({&report});
  return AccuracyTables(StudiesOf(report, mixers).front(), mixers).front().note;
}

// A mixer of eight seeds beside one of so many.
SweepReport EightBeside(std::uint64_t num_seeds) {
  std::vector<CellResult> cells;
  for (std::uint64_t seed = 0; seed < 8; ++seed) cells.push_back(Cell({"gla", 100}, seed));
  for (std::uint64_t seed = 0; seed < num_seeds; ++seed) cells.push_back(Cell({"fox", 100}, seed));
  return MakeSweepReport("s", Object{}, std::move(cells));
}

}  // namespace

TEST_CASE("An accuracy below the threshold is that of the longest, which is named",
          "[reports][view]") {
  const SweepReport report = ReportOf({{"gla", {}, 1, 0.25}, {"fox", 100}});
  CHECK(GlanceText(report, "mqar:") ==
        "mqar: 1 of 2 mixers solved. Not solved: GLA (25.0 % at 256 tokens).");
}

TEST_CASE("All that need the fewest steps are named, with their task", "[reports][view]") {
  const SweepReport report =
      ReportOf({{"gla", 100}, {"fox", 100}, {"attention", 200}, {"mamba2", {}}});
  CHECK(GlanceText(report, "fewest steps") ==
        "mqar, fewest steps to the threshold: FoX, GLA: 100.");
  const SweepReport none = ReportOf({{"gla", {}}, {"fox", {}}});
  CHECK(GlanceText(none, "fewest steps").empty());
}

TEST_CASE("Which goes furthest is said of one setting alone", "[reports][view]") {
  const SweepReport one = ReportOf({{"gla", 100, 1, 0.25}, {"fox", 100, 1, 0.75}});
  CHECK(GlanceText(one, "longer than trained") ==
        "mqar, longer than trained, 256 tokens: highest FoX with 75.0 %, lowest GLA with 25.0 %.");
  const SweepReport two = ReportOf({{"gla", 100, 1, 0.25, "d_model=32"},
                                    {"fox", 100, 1, 0.75, "d_model=32"},
                                    {"gla", 100, 1, 0.75, "d_model=64"},
                                    {"fox", 100, 1, 0.25, "d_model=64"}});
  CHECK(GlanceText(two, "longer than trained").empty());
}

TEST_CASE("Thresholds and early stops are those of each task", "[reports][view]") {
  std::vector<CellResult> cells;
  for (const auto& [task, solved, stop] : {std::tuple{"copy", 0.9, 0.99}, {"mqar", 0.95, 0.998}}) {
    CellResult cell = TrainedCell(task + std::string("/gla/"));
    cell.config = Object{{"task", Object{{"name", task}}},
                         {"model", Object{{"sequence_mixer", Object{{"name", "gla"}}}}},
                         {"train", Object{{"early_stop_accuracy", stop}}}};
    AccuracyRow row;
    row.axes = {{"input_seq_len", 64}};
    row.num_sequences = row.num_scored = 100;
    row.num_correct = 50;
    row.accuracy = 0.5;
    cell.accuracy.push_back(row);
    cell.threshold = solved;
    cell.steps_to_threshold = 100;
    cells.push_back(std::move(cell));
  }
  const SweepReport report = MakeSweepReport("two", {}, std::move(cells));
  const MixerList mixers({&report});
  const std::vector<Study> studies = StudiesOf(report, mixers);
  const auto has_column = [&](std::size_t study, const std::string& label) {
    const Table table = AccuracyTables(studies.at(study), mixers).front();
    return std::any_of(table.columns.begin(), table.columns.end(),
                       [&](const Column& column) { return column.label == label; });
  };
  CHECK(has_column(0, "Steps to 90 %"));
  CHECK(has_column(1, "Steps to 95 %"));
  std::vector<std::string> leads;
  for (const Sentence& care : CareOf(report, studies)) {
    if (care.lead.starts_with("Training stops")) leads.push_back(care.lead);
  }
  CHECK(leads == std::vector<std::string>{"Training stops early at 99 %, copy:",
                                          "Training stops early at 99.8 %, mqar:"});
}

TEST_CASE("Few seeds are told of the results that have them", "[reports][view]") {
  CHECK(CareText(ReportOf({{"gla", 100}}), "seed") ==
        "One seed: intervals cover test items, not training runs.");
  CHECK(CareText(ReportOf({{"gla", 100}}, 3), "seeds") ==
        "Fewer than five seeds: single seeds are shown, no intervals over seeds.");
  CHECK(CareText(ReportOf({{"gla", 100}}, 5), "seed").empty());
  CHECK(CareText(EightBeside(3), "seeds") ==
        "Fewer than five seeds, mqar (1 of 2 results): single seeds are shown, no intervals over "
        "seeds.");
  std::vector<CellResult> cells = {Cell({.mixer = "gla", .steps = 100, .task = "hint"})};
  for (std::uint64_t seed = 0; seed < 5; ++seed) cells.push_back(Cell({"gla", 100}, seed));
  CHECK(CareText(MakeSweepReport("s", Object{}, cells), "seed") ==
        "One seed, hint: intervals cover test items, not training runs.");
}

TEST_CASE("A table says what its small lines are where rows differ in seeds", "[reports][view]") {
  CHECK(NoteText(EightBeside(8))
            .starts_with("Mean over seeds. Small: its 95 % interval over seeds. Bold"));
  const std::string mixed = NoteText(EightBeside(3));
  CHECK(
      mixed.starts_with("Mean over seeds. Small: its 95 % interval over seeds or the single "
                        "seeds; fewer than five give no interval. Bold"));
  CHECK((mixed.find("fewer than five seeds, nothing is tested") != std::string::npos));
  CHECK(NoteText(EightBeside(1))
            .starts_with("Mean over seeds. Small: its 95 % interval over seeds or the single "
                         "seeds; fewer than five "
                         "give no interval; of one seed, 95 % interval over test items. Bold"));
}

TEST_CASE("Labels that look alike are told apart", "[reports][view]") {
  const auto model = [](const char* name, const char* module = "") {
    Object mixer = {{"name", name}};
    if (*module != 0) mixer["module"] = module;
    return Value(Object{{"sequence_mixer", mixer}});
  };
  const auto label = [](const MixerList& mixers, const std::string& key) {
    return LabelOf(mixers, mixers.IndexOf(key));
  };
  const MixerList mixers({{"mqar/fox/", model("fox")},
                          {"mqar/Fox/", model("python", "own.py:Fox")},
                          {"mqar/simple_gla/", model("simple_gla")},
                          {"mqar/SimpleGla/", model("python", "own.py:SimpleGla")},
                          {"mqar/Mean/", model("python", "own.py:Mean")}});
  CHECK(label(mixers, "fox") == "FoX");
  CHECK(label(mixers, "Fox") == "Fox (Python)");
  CHECK(label(mixers, "simple_gla") == "Simple GLA");
  CHECK(label(mixers, "SimpleGla") == "SimpleGla (Python)");
  CHECK(label(mixers, "Mean") == "Mean");
}

}  // namespace mixerbench::reports
