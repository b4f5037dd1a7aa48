// What a report says of all of its runs at once, and of what it does not know.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "reports/summary/sweep_report.h"
#include "reports/view/mixer_list.h"
#include "reports/view/report_page.h"
#include "reports/view/sentences.h"
#include "reports/view/study.h"
#include "reports/view/tables.h"

#include "tests/support/catch2.h"

namespace mixerbench::reports {
namespace {

Object Segment(int length, const std::string& key_length) {
  return {{"input_seq_len", length},  {"num_kv_pairs", 8},        {"num_examples", 3000},
          {"key_length", key_length}, {"prefix_len", length - 2}, {"group", "A4xZ5"}};
}

// Tested at these lengths.
CellResult Trained(const std::vector<int>& lengths) {
  CellResult cell;
  cell.name = "mqar/gla/";
  cell.kind = "train";
  cell.group_id = cell.run_id = cell.name;
  cell.state = CellState::kCompleted;
  Array tests;
  for (const int length : lengths) {
    tests.emplace_back(Segment(length, "longest"));
    AccuracyRow row;
    row.axes = {{"input_seq_len", length}};
    row.num_sequences = row.num_scored = 1000;
    row.num_correct = 500;
    row.accuracy = 0.5;
    cell.accuracy.push_back(row);
  }
  cell.config = Object{{"task", Object{{"name", "mqar"},
                                       {"test", std::move(tests)},
                                       {"train", Array{Segment(64, "uniform")}}}},
                       {"model", Object{{"sequence_mixer", Object{{"name", "gla"}}}}},
                       {"train", Object{{"num_epochs", 10}, {"steps_per_epoch", 8192}}}};
  return cell;
}

// "" where there is no such fact.
std::string TextOf(const std::vector<Fact>& facts, const std::string& term) {
  for (const Fact& fact : facts) {
    if (fact.term == term) return fact.text;
  }
  return "";
}

std::string SetupText(const CellResult& cell, const std::string& term) {
  const SweepReport report = MakeSweepReport("e", {}, {cell});
  const MixerList mixers({&report});
  return TextOf(SetupOf(StudiesOf(report, mixers).front()), term);
}

std::string CareText(std::vector<CellResult> cells, const std::string& part) {
  const SweepReport report = MakeSweepReport("e", {}, std::move(cells));
  const MixerList mixers({&report});
  for (const Sentence& care : CareOf(report, StudiesOf(report, mixers))) {
    if (care.lead.find(part) != std::string::npos) return care.lead + " " + care.text;
  }
  return "";
}

CellResult Timed() {
  CellResult cell = Trained({128});
  cell.kind = "throughput";
  cell.group_id = cell.run_id = "timed";
  cell.accuracy.clear();
  cell.state = CellState::kOom;
  cell.reason = "memory";
  return cell;
}

}  // namespace

TEST_CASE("A single test that is longer than the training says so", "[reports][view]") {
  const auto heads = [](bool is_extrapolated) {
    CellResult cell = Trained({256});
    cell.accuracy.front().extrapolated = is_extrapolated;
    std::string found;
    for (const Section& section : MakeReportPage(MakeSweepReport("e", {}, {cell})).sections) {
      for (const Block& block : section.blocks) {
        const auto* table = std::get_if<Table>(&block);
        if (!table) continue;
        for (const Column& column : table->columns) found += column.group + column.label + "\n";
      }
    }
    return found;
  };
  CHECK(heads(true).find("Longer than trained, %") != std::string::npos);
  CHECK(heads(false).find("Longer than trained, %") == std::string::npos);
}

TEST_CASE("Training data are those of all segments, with their sizes", "[reports][view]") {
  CellResult cell = Trained({256});
  CHECK(SetupText(cell, "Training data") == "3,000 sequences of 64 tokens, 8 pairs");
  Value& train = cell.config.as_object()["task"].as_object()["train"];
  train.as_array().emplace_back(Segment(16, "uniform"));
  CHECK(SetupText(cell, "Training data") == "6,000 sequences of 16 to 64 tokens, 8 pairs");
  for (Value& segment : train.as_array()) segment.as_object()["num_examples"] = 0;
  CHECK(SetupText(cell, "Training data") == "ever new sequences of 16 to 64 tokens, 8 pairs");
}

TEST_CASE("The setup has the size of the only test, and the task's options", "[reports][view]") {
  const CellResult one = Trained({128});
  CHECK(SetupText(one, "Test") == "3,000 sequences of 128 tokens, 8 pairs");
  CHECK(SetupText(one, "Task options") ==
        "group A4xZ5, key_length longest (uniform in training), prefix_len 126 (62 in training)");
  CHECK(SetupText(one, "Budget") == "10 epochs of 8,192 steps");
  CellResult shallow = one;
  shallow.config.as_object()["model"].as_object()["n_layers"] = 1;
  CHECK(SetupText(shallow, "Model") == "1 layer");
  CellResult counted = one;  // steps follow from the data
  counted.config.as_object()["train"] = Object{{"num_epochs", 10}, {"steps_per_epoch", 0}};
  CHECK(SetupText(counted, "Budget") == "10 epochs");
  CellResult differing = Trained({128, 256});  // what is long is tested on fewer
  Object& task = differing.config.as_object()["task"].as_object();
  task["test"].as_array()[1].as_object()["num_examples"] = 16;
  CHECK(SetupText(differing, "Test") == "16 to 3,000 sequences a segment");
  const CellResult several = Trained({128, 256});
  CHECK(SetupText(several, "Test") == "3,000 sequences a segment");
  CHECK(SetupText(several, "Task options") ==
        "group A4xZ5, key_length longest (uniform in training)");
}

TEST_CASE("A report of what did not run says nothing that it does not know", "[reports][view]") {
  CellResult planned = Trained({128});
  planned.state = CellState::kPlanned;
  planned.accuracy.clear();
  CHECK(SetupText(planned, "Seeds").empty());
  CHECK(CareText({planned}, "ommit").empty());
  CHECK(CareText({planned}, "seed").empty());
  const SweepReport report = MakeSweepReport("e", {}, {planned});
  CHECK(TextOf(MakeReportPage(report).facts, "Software").empty());
  const MixerList mixers({&report});
  CHECK(FailureTable(report, mixers)->rows.front().cells[3].text == kNone);
  const Row cell = CellTable(report, mixers).rows.front();
  CHECK(cell.cells[6].text == kNone);
  CHECK(cell.cells[8].text == kNone);
}

TEST_CASE("A report of what ran says what is not recorded", "[reports][view]") {
  CellResult trained = Trained({128});
  CHECK(CareText({trained}, "ommit") == "No commit is recorded, and no hash of the code.");
  trained.environment = Object{{"libtorch", "2.11.0"}, {"tool", Object{{"code", "abc"}}}};
  CHECK(CareText({trained}, "ommit") == "No commit is recorded; the hash of the code is.");
  trained.environment = Object{{"libtorch", "2.11.0"}};
  trained.code_id = "sha256:1";
  CHECK(CareText({trained}, "ommit") == "No commit is recorded; the hash of the code is.");
  CHECK(SetupText(trained, "Seeds") == "1 (0)");
  const SweepReport report = MakeSweepReport("e", {}, {trained});
  CHECK(TextOf(MakeReportPage(report).facts, "Software") == "libtorch 2.11.0");
}

TEST_CASE("Builds are told by the commit, else by the code of one experiment", "[reports][view]") {
  CellResult first = Trained({128});
  first.environment = Object{{"tool", Object{{"git_commit", "a"}}}};
  first.experiment_id = "sha256:e";
  first.code_id = "sha256:1";
  CellResult other = first;
  other.run_id = other.group_id = "other";
  CHECK(CareText({first, other}, "build").empty());
  other.code_id = "sha256:2";
  const std::string two = "Cells of 2 builds: differences between them may be the code's.";
  CHECK(CareText({first, other}, "build") == two);
  other.experiment_id = "sha256:f";  // of another mixer, whose code is another
  CHECK(CareText({first, other}, "build").empty());
  other.environment = Object{{"tool", Object{{"git_commit", "b"}}}};
  CHECK(CareText({first, other}, "build") == two);
}

TEST_CASE("Only trainings that failed lose accuracy", "[reports][view]") {
  CHECK(CareText({Trained({128}), Timed()}, "failed").empty());
  CellResult failed = Trained({128});
  failed.state = CellState::kDiverged;
  failed.accuracy.clear();
  CHECK(CareText({failed, Timed()}, "failed") ==
        "1 failed training: its accuracy counts as chance and it is unsolved.");
  CellResult other = failed;
  other.seed = 1;
  other.run_id += "1";
  CHECK(CareText({failed, other}, "failed") ==
        "2 failed trainings: their accuracies count as chance and they are unsolved.");
}

TEST_CASE("A failed timing is told from the training of its name", "[reports][view]") {
  CellResult failed = Trained({128});
  failed.state = CellState::kDiverged;
  failed.step = 700;
  const SweepReport report = MakeSweepReport("e", {}, {failed, Timed()});
  const auto table = FailureTable(report, MixerList({&report}));
  REQUIRE(table);
  std::vector<std::string> rows;
  for (const Row& row : table->rows) rows.push_back(row.cells[0].text + ": " + row.cells[3].text);
  std::sort(rows.begin(), rows.end());
  CHECK(rows == std::vector<std::string>{"GLA, speed: –", "GLA: 700"});
}

}  // namespace mixerbench::reports
