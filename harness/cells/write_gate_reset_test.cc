// Evaluations that replace the write gates of a trained model.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include "harness/cells/evaluate_cell.h"
#include "harness/cells/train.h"
#include "harness/cells/trained_model.h"
#include "harness/evaluation/evaluate.h"
#include "harness/suite/suite.h"
#include "tests/support/temporary_folder.h"

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

using testing::TemporaryFolder;

const Registries& AllRegistries() {
  static const Registries registries;
  return registries;
}

// Trains for 8 steps on inputs of 8 tokens; `sections` follow.
std::vector<Cell> Cells(const std::string& mixer, const std::string& sections) {
  return ParseSuite(R"({"name": "one",
      "task": {"name": "mqar", "vocab_size": 32, "num_kv_pairs": 1, "input_seq_len": 8,
               "train": {"num_examples": 192}, "validation": {"num_examples": 40},
               "test": {"num_examples": 40}},
      "model": {"d_model": 16, "n_layers": 2, "sequence_mixer": {"name": ")" +
                        mixer + R"("}},
      "train": {"lr": 0.005, "batch_size": 24, "num_epochs": 1, "early_stop_accuracy": 0})" +
                        sections + "}",
                    {}, AllRegistries())
      .cells;
}

RunControl ControlOf(const TemporaryFolder& folder) {
  return {.weights_folder = folder.path(), .max_weight_bytes = 1 << 20};
}

void Train(const Cell& cell, const TemporaryFolder& folder) {
  RunTrainCell(cell, at::kCPU, AllRegistries(), ControlOf(folder), [](const Progress&) {});
}

// Of the whole segment, which decides the state of the cell.
reports::AccuracyRow Evaluate(const Cell& cell, const TemporaryFolder& folder,
                              reports::CellState state = reports::CellState::kCompleted) {
  const auto result =
      RunEvaluateCell(cell, at::kCPU, AllRegistries(), ControlOf(folder), [](const Progress&) {});
  INFO(result.reason);
  REQUIRE(result.state == state);
  return result.accuracy.front();
}

const std::string kReset = R"(, "evaluate": [{},
    {"reset_write_gate": {"share": 1}},
    {"reset_write_gate": {"first_token": 0, "last_token": 15}}])";

TEST_CASE("write gate reset: an evaluation with one stands apart from plain ones") {
  const TemporaryFolder folder;
  const auto cells = Cells("delta_net", kReset);
  REQUIRE(cells.size() == 4);
  Train(cells[0], folder);
  std::vector<reports::AccuracyRow> rows;
  std::set<std::string> ids;
  for (std::size_t i = 1; i < cells.size(); ++i) {
    CHECK(cells[i].training_id == cells[0].training_id);
    ids.insert(cells[i].experiment_id);
    rows.push_back(Evaluate(cells[i], folder));
    const Cell read = CellFromValue(CellToValue(cells[i]), AllRegistries().tasks);
    CHECK(CellToValue(read) == CellToValue(cells[i]));
    // Neither the results nor the positions depend on what runs together.
    Cell in_batches = cells[i];
    in_batches.train.eval_batch_tokens = 56;  // seven samples
    CHECK(*Evaluate(in_batches, folder).nll == Approx(*rows.back().nll).epsilon(1e-6));
  }
  CHECK(ids.size() == 3);
  CHECK_FALSE(rows[0].axes.contains("reset_write_gate"));
  CHECK(rows[1].axes.at("reset_write_gate").as_string() == "1 of all positions");
  CHECK(rows[2].axes.at("reset_write_gate").as_string() == "tokens 0 to 15");
  CHECK(std::abs(*rows[1].nll - *rows[0].nll) > 1e-5);
}

TEST_CASE("write gate reset: gates are replaced where the tokens say, in every layer") {
  const TemporaryFolder folder;
  const auto cells = Cells("delta_net", kReset);
  Train(cells[0], folder);
  const Cell& cell = cells[3];
  const TrainedModel trained = LoadTrainedModel(cell, at::kCPU, AllRegistries(), folder.path());
  const auto sources = MakeSources(cell.task, cell.task.test, cell.task.data_seed,
                                   tasks::Split::kTest, at::kCPU, AllRegistries());
  const at::NoGradGuard no_grad;
  const Batch batch = sources[0].generator().Generate(sources[0].WithKey({.count = 40}));
  models::TapRecorder recorder;
  recorder.override_write_gate = batch.inputs.le(15);
  const at::Tensor num_reset = recorder.override_write_gate->sum();
  REQUIRE(num_reset.item<std::int64_t>() > 0);
  REQUIRE(num_reset.item<std::int64_t>() < batch.inputs.numel());
  const ScoredRows scored = ListScored(batch.labels, 1);
  const auto nll = [&](const models::TapScope& taps) {
    return Predict(*trained.model.backbone, batch, scored, at::kFloat, 100, taps)
        .nll.mean()
        .item<double>();
  };
  const double plain = nll({}), reset = nll(models::TapScope(recorder));
  CHECK(std::abs(plain - reset) > 1e-6);
  CHECK(*Evaluate(cells[1], folder).nll == Approx(plain).epsilon(1e-7));
  CHECK(*Evaluate(cell, folder).nll == Approx(reset).epsilon(1e-7));
}

TEST_CASE("write gate reset: what means nothing is refused or unsupported") {
  const auto section = [](const std::string& reset) {
    return R"(, "evaluate": [{"reset_write_gate": )" + reset + "}]";
  };
  const std::string place = "/evaluate/0/reset_write_gate";
  for (const auto& [reset, where] : std::vector<std::pair<std::string, std::string>>{
           {"{}", ": expected"},
           {R"({"share": 0.1, "first_token": 1, "last_token": 2})", ": expected"},
           {R"({"first_token": 3, "last_token": 2})", ": expected"},
           {R"({"first_token": 3, "last_token": 32})", "/last_token: the vocabulary ends at 31"},
           {R"({"share": 1.5})", "/share: "},
           {R"({"shares": 1})", ""}}) {
    CAPTURE(reset);
    CHECK_THROWS_WITH(Cells("gla", section(reset)), Catch::StartsWith(place + where));
  }
  CHECK_THROWS_WITH(
      Cells("gla", R"(, "analyse": [{"taps": "all", "reset_write_gate": {"share": 1}}])"),
      Catch::StartsWith("/analyse/0/reset_write_gate"));

  const TemporaryFolder folder;
  const auto reason = [&](const std::string& mixer, std::int64_t piece_len) {
    auto cells = Cells(mixer, section(R"({"share": 1})"));
    for (Cell& cell : cells) cell.train.eval_piece_len = piece_len;
    Train(cells[0], folder);
    const reports::AccuracyRow row = Evaluate(cells[1], folder, reports::CellState::kUnsupported);
    CHECK(row.state == reports::CellState::kUnsupported);
    return row.reason;
  };
  CHECK_THAT(reason("attention", 4096), Catch::Contains("no layer"));
  CHECK_THAT(reason("delta_net", 4), Catch::Contains("run in pieces"));
}

}  // namespace
}  // namespace mixerbench::harness
