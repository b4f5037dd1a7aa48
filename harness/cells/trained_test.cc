// Cells that use the weights of a training: evaluate and analyse.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "harness/cells/analyse_cell.h"
#include "harness/cells/evaluate_cell.h"
#include "harness/cells/train.h"
#include "harness/suite/suite.h"
#include "harness/training/weights.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "reports/result/result_json.h"
#include "tests/support/temporary_folder.h"

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

namespace fs = std::filesystem;
using reports::CellState;
using testing::TemporaryFolder;

const Registries& AllRegistries() {
  static const Registries registries;
  return registries;
}

// Trains for 8 steps on inputs of 8 tokens; `sections` follow.
std::vector<Cell> Cells(const std::string& test_lengths, const std::string& sections,
                        const std::string& mixer = R"({"name": "gla", "num_heads": 2})",
                        const std::string& model = "") {
  return ParseSuite(R"({"name": "one",
      "task": {"name": "mqar", "vocab_size": 32, "num_kv_pairs": 1,
               "train": {"input_seq_len": 8, "num_examples": 192},
               "validation": {"num_examples": 40},
               "test": {"input_seq_len": [)" +
                        test_lengths + R"(], "num_examples": 40}},
      "model": {"d_model": 16, "n_layers": 2, )" +
                        model + R"("sequence_mixer": )" + mixer + R"(},
      "train": {"lr": 0.005, "batch_size": 24, "num_epochs": 1, "early_stop_accuracy": 0})" +
                        sections + "}",
                    {}, AllRegistries())
      .cells;
}

const Cell& OfKind(const std::vector<Cell>& cells, CellKind kind) {
  return *std::find_if(cells.begin(), cells.end(),
                       [kind](const Cell& cell) { return cell.kind == kind; });
}

RunControl ControlOf(const TemporaryFolder& folder) {
  return {.weights_folder = folder.path(), .max_weight_bytes = 1 << 20};
}

reports::CellResult Train(const Cell& cell, const RunControl& control) {
  return RunTrainCell(cell, at::kCPU, AllRegistries(), control, [](const Progress&) {});
}

struct Ran {
  reports::CellResult result;
  std::set<std::int64_t> steps;  // that somebody was told of
};

Ran Use(const Cell& cell, const RunControl& control) {
  Ran ran;
  const auto run = cell.kind == CellKind::kEvaluate ? RunEvaluateCell : RunAnalyseCell;
  ran.result = run(cell, at::kCPU, AllRegistries(), control,
                   [&](const Progress& progress) { ran.steps.insert(progress.step); });
  return ran;
}

std::string MemberText(const reports::CellResult& result, const char* member) {
  return io::DumpJson(*reports::CellToValue(result).Find(member));
}

const std::string kEvaluate = R"(, "evaluate": [{"input_seq_len": [8, 12], "num_examples": 40}])";

TEST_CASE("trained: what is evaluated or analysed is no part of a training's identity") {
  const auto plain = Cells("8", "");
  const auto used = Cells("8", kEvaluate + R"(, "analyse": [{"taps": "all"}])");
  REQUIRE(plain.size() == 1);
  REQUIRE(used.size() == 3);
  CHECK(used[0].run_id == plain[0].run_id);
  std::set<std::string> run_ids, experiment_ids;
  for (const Cell& cell : used) {
    CHECK(cell.training_id == plain[0].training_id);
    run_ids.insert(cell.run_id);
    experiment_ids.insert(cell.experiment_id);
  }
  CHECK(run_ids.size() == 3);
  CHECK(experiment_ids.size() == 3);
  const auto more = Cells("8", R"(, "evaluate": [{"input_seq_len": 16}])");
  CHECK(more[1].experiment_id != used[1].experiment_id);
  CHECK(more[1].training_id == used[1].training_id);
}

TEST_CASE("trained: a cell is the same after a file") {
  for (const Cell& cell : Cells("8", kEvaluate + R"(, "analyse": [{"taps": ["log_decay"]}])")) {
    const Cell read = CellFromValue(CellToValue(cell), AllRegistries().tasks);
    CHECK(CellToValue(read) == CellToValue(cell));
    CHECK(read.kind == cell.kind);
    CHECK(read.taps == cell.taps);
  }
}

TEST_CASE("trained: evaluation trains nothing and has the bits of one inside training") {
  const TemporaryFolder folder;
  const auto cells = Cells("8", kEvaluate);
  const auto trained = Train(cells[0], ControlOf(folder));
  REQUIRE(trained.weights);
  const Ran ran = Use(OfKind(cells, CellKind::kEvaluate), ControlOf(folder));
  INFO(ran.result.reason);
  REQUIRE(ran.result.state == CellState::kCompleted);
  CHECK(ran.steps == std::set<std::int64_t>{0, 1});  // segments: a training would tell of 8 steps
  CHECK(ran.result.learning_curve.empty());
  CHECK(ran.result.weights->sha256 == trained.weights->sha256);
  CHECK(ran.result.weights->reused);

  const auto inside = Train(Cells("8, 12", "")[0], {});
  CHECK(MemberText(ran.result, "accuracy_by_length") == MemberText(inside, "accuracy_by_length"));
  CHECK(MemberText(ran.result, "model_facts") == MemberText(inside, "model_facts"));
  // What any program wrote is read.
  const auto read = reports::ParseCell(reports::DumpCell(ran.result), "result.json");
  CHECK(reports::DumpCell(read) == reports::DumpCell(ran.result));
}

TEST_CASE("trained: without intact weights a cell is a row with the reason") {
  const TemporaryFolder folder;
  const auto cells = Cells("8", kEvaluate);
  const Cell& cell = OfKind(cells, CellKind::kEvaluate);
  const Ran missing = Use(cell, ControlOf(folder));
  CHECK(missing.result.state == CellState::kError);
  CHECK_THAT(missing.result.reason, Catch::Contains("no weights of its training"));
  CHECK(missing.result.accuracy.size() == 2);  // rows of the segments, which count as chance

  Train(cells[0], ControlOf(folder));
  const fs::path file = folder.TheFile();
  std::string bytes = io::ReadFile(file);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
  const Ran damaged = Use(cell, ControlOf(folder));
  CHECK(damaged.result.state == CellState::kError);
  CHECK_THAT(damaged.result.reason, Catch::Contains("damaged"));
}

TEST_CASE("trained: weights of another training are refused") {
  const TemporaryFolder folder;
  const auto cells = Cells("8", kEvaluate);
  Train(cells[0], ControlOf(folder));
  const fs::path file = folder.TheFile();
  Cell other = OfKind(cells, CellKind::kEvaluate);
  other.training_id = std::string(64, 'a');  // as code that has changed gives it
  const std::string name = file.filename().string();
  fs::rename(file, folder.path() / (other.training_id.substr(0, 16) + name.substr(16)));
  const Ran ran = Use(other, ControlOf(folder));
  CHECK(ran.result.state == CellState::kError);
  CHECK_THAT(ran.result.reason, Catch::Contains("belongs to another training"));
}

TEST_CASE(
    "trained: a segment beyond what the model is built for is unsupported, others are scored") {
  const TemporaryFolder folder;
  const auto cells = Cells("8", R"(, "evaluate": [{"input_seq_len": [8, 12]}])",
                           R"({"name": "attention"})", R"("positions": "learned", )");
  Train(cells[0], ControlOf(folder));
  const Ran ran = Use(OfKind(cells, CellKind::kEvaluate), ControlOf(folder));
  CHECK(ran.result.state == CellState::kUnsupported);
  CHECK_THAT(ran.result.reason, Catch::StartsWith("input_seq_len 12: there are 8 learned"));
  std::vector<CellState> states;
  for (const auto& row : ran.result.accuracy) {
    if (row.slice.empty()) states.push_back(row.state);
  }
  CHECK(states == std::vector{CellState::kCompleted, CellState::kUnsupported});
  CHECK_THAT(ran.result.accuracy.back().reason, Catch::Contains("8 "));
}

TEST_CASE(
    "trained: a model that depends on the longest tested input trains again for another one") {
  for (const char* mixer : {R"({"name": "s4"})", R"({"name": "hyena"})"}) {
    CAPTURE(mixer);
    const TemporaryFolder folder;
    Train(Cells("8", "", mixer)[0], ControlOf(folder));
    const auto longer = Train(Cells("8, 16", "", mixer)[0], ControlOf(folder));
    CHECK_FALSE(longer.weights.value().reused);
    CHECK(MemberText(longer, "accuracy_by_length") ==
          MemberText(Train(Cells("8, 16", "", mixer)[0], {}), "accuracy_by_length"));
  }
}

TEST_CASE("trained: taps are recorded for every layer and segment") {
  const TemporaryFolder folder;
  const auto cells = Cells("8", R"(, "analyse": [{"taps": ["log_decay", "router"],
      "input_seq_len": [8, 12], "num_examples": 10}])");
  Train(cells[0], ControlOf(folder));
  const Ran ran = Use(OfKind(cells, CellKind::kAnalyse), ControlOf(folder));
  CHECK(ran.result.state == CellState::kUnsupported);
  CHECK_THAT(ran.result.reason, Catch::StartsWith("tap router, input_seq_len 8: no layer records"));
  CHECK(ran.result.accuracy.empty());
  REQUIRE(ran.result.taps.size() == 6);  // two layers and the tap that there is not, twice
  for (std::size_t segment : {0, 1}) {
    for (std::size_t layer : {0, 1}) {
      const reports::TapRow& row = ran.result.taps[3 * segment + layer];
      CHECK(row.tap == "log_decay");
      CHECK(row.path == "layers." + std::to_string(layer) + ".log_decay");
      CHECK(row.num_sequences == 10);
      CHECK(row.num_values % (10 * (segment == 0 ? 8 : 12)) == 0);
      CHECK(row.num_values > 0);
      CHECK(*row.min <= *row.mean);
      CHECK(*row.mean <= *row.max);
      CHECK(*row.max <= 0);
      CHECK(*row.std > 0);
    }
    const reports::TapRow& none = ran.result.taps[3 * segment + 2];
    CHECK(none.tap == "router");
    CHECK(none.state == CellState::kUnsupported);
    CHECK_THAT(none.reason, Catch::Contains("log_decay"));
  }
  const auto read = reports::ParseCell(reports::DumpCell(ran.result), "result.json");
  CHECK(reports::DumpCell(read) == reports::DumpCell(ran.result));
}

TEST_CASE("trained: measures of states and decays are rows beside the taps that they are of") {
  const TemporaryFolder folder;
  const auto cells = Cells("8", R"(, "analyse": [{"taps": ["state_entropy", "receptive_field",
      "state_row_cosine", "state_row_abs_cosine"], "num_examples": 10}])");
  Train(cells[0], ControlOf(folder));
  const Ran ran = Use(OfKind(cells, CellKind::kAnalyse), ControlOf(folder));
  REQUIRE(ran.result.state == CellState::kCompleted);
  REQUIRE(ran.result.taps.size() == 8);  // of two layers; the state itself was not asked for
  std::set<std::string> paths;
  for (const reports::TapRow& row : ran.result.taps) {
    CAPTURE(row.path);
    CHECK(row.state == CellState::kCompleted);
    CHECK(row.num_not_finite == 0);
    paths.insert(row.path);
    // Two heads with states of 4 x 8, two times 4 channels over 8 tokens.
    CHECK(row.num_values == 10 * (row.tap == "receptive_field" ? 8 * 8 : 2));
    CHECK(*row.max <= (row.tap == "receptive_field" ? 7 : 1));
    CHECK(*row.min >= (row.tap == "state_row_cosine" ? -1 : 0));
  }
  CHECK(paths.contains("layers.0.state_entropy"));
  CHECK(paths.contains("layers.1.receptive_field"));

  const auto attention =
      Cells("8", R"(, "analyse": [{"taps": ["state_entropy"]}])", R"({"name": "attention"})");
  Train(attention[0], ControlOf(folder));
  const Ran none = Use(OfKind(attention, CellKind::kAnalyse), ControlOf(folder));
  REQUIRE(none.result.taps.size() == 1);
  CHECK(none.result.state == CellState::kUnsupported);
  CHECK(none.result.taps[0].state == CellState::kUnsupported);
  CHECK_THAT(none.result.taps[0].reason, Catch::Contains("no layer records it"));
}

TEST_CASE("trained: all taps of a model, and none of one that has none") {
  const TemporaryFolder folder;
  const std::string all = R"(, "analyse": [{"taps": "all", "num_examples": 4}])";
  const auto cells = Cells("8", all);
  Train(cells[0], ControlOf(folder));
  const Ran ran = Use(OfKind(cells, CellKind::kAnalyse), ControlOf(folder));
  REQUIRE(ran.result.taps.size() >= 2);
  for (const auto& row : ran.result.taps) CHECK(row.state == CellState::kCompleted);

  const auto window = Cells("8", all, R"({"name": "sliding_window"})");
  Train(window[0], ControlOf(folder));
  const Ran without = Use(OfKind(window, CellKind::kAnalyse), ControlOf(folder));
  REQUIRE(without.result.state == CellState::kCompleted);
  REQUIRE(without.result.taps.size() == 1);
  CHECK(without.result.taps[0].state == CellState::kSkipped);
  CHECK_THAT(without.result.taps[0].reason, Catch::Contains("no taps"));
}

TEST_CASE("trained: a cell that is stopped tells so, and runs from its start later") {
  const TemporaryFolder folder;
  const auto cells = Cells("8", kEvaluate);
  Train(cells[0], ControlOf(folder));
  RunControl control = ControlOf(folder);
  control.stop_requested = [] { return true; };
  const Cell& cell = OfKind(cells, CellKind::kEvaluate);
  CHECK(Use(cell, control).result.state == CellState::kInterrupted);
  CHECK(Use(cell, ControlOf(folder)).result.state == CellState::kCompleted);
}

}  // namespace
}  // namespace mixerbench::harness
