// SPDX-License-Identifier: Apache-2.0
#include "harness/training/checkpoint.h"

#include <filesystem>
#include <fstream>

#include <ATen/ATen.h>

#include "harness/cells/train.h"
#include "harness/suite/suite.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "reports/result/result_json.h"
#include "tests/support/temporary_folder.h"

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;

Checkpoint MakeCheckpoint(std::int64_t step) {
  return {.step = step,
          .progress = Object{{"loss_sum", 0.1 + static_cast<double>(step)}},
          .tensors = {{"w", at::arange(20, at::kFloat).add_(static_cast<double>(step))},
                      {"empty", at::zeros({0, 3})}}};
}

std::optional<Checkpoint> Load(const CheckpointFolder& folder, std::size_t num_problems) {
  std::vector<std::string> problems;
  auto checkpoint = folder.Load(problems);
  CHECK(problems.size() == num_problems);
  return checkpoint;
}

void Overwrite(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

TEST_CASE("checkpoint: comes back whole, the newest first, and two are kept") {
  const TemporaryFolder folder;
  const CheckpointFolder checkpoints(folder.path(), "run");
  CHECK_FALSE(Load(checkpoints, 0));
  for (const std::int64_t step : {9, 10, 1000}) checkpoints.Save(MakeCheckpoint(step));
  CHECK(folder.Files().size() == 2);
  const auto newest = Load(checkpoints, 0);
  REQUIRE(newest);
  CHECK(newest->step == 1000);
  CHECK(newest->progress == MakeCheckpoint(1000).progress);
  REQUIRE(newest->tensors.size() == 2);
  for (const auto& [name, tensor] : MakeCheckpoint(1000).tensors) {
    CHECK(newest->tensors.at(name).equal(tensor));
  }
  CheckpointFolder::RemoveAll(folder.path());
  CHECK(folder.Files().empty());
}

TEST_CASE("checkpoint: of several at one step the last is the newest") {
  const TemporaryFolder folder;
  const CheckpointFolder checkpoints(folder.path(), "run");
  for (std::int64_t segment = 0; segment < 12; ++segment) {
    Checkpoint checkpoint = MakeCheckpoint(7);
    checkpoint.progress.as_object()["num_tested"] = segment;
    checkpoints.Save(checkpoint);
    CHECK(folder.Files().size() == std::min<std::size_t>(segment + 1, 2));
    CHECK(Load(checkpoints, 0)->progress == checkpoint.progress);
  }
}

TEST_CASE("checkpoint: damage is detected and the one before is taken") {
  const TemporaryFolder folder;
  const CheckpointFolder checkpoints(folder.path(), "run");
  checkpoints.Save(MakeCheckpoint(1));
  checkpoints.Save(MakeCheckpoint(2));
  const fs::path newest = folder.Files().back();
  const std::string whole = io::ReadFile(newest);
  for (std::size_t bit = 0; bit < 8 * whole.size(); bit += 7) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    Overwrite(newest, flipped);
    INFO("bit " << bit);
    REQUIRE(Load(checkpoints, 1)->step == 1);
  }
  for (std::size_t size = 0; size < whole.size(); size += 13) {
    Overwrite(newest, whole.substr(0, size));
    INFO("size " << size);
    REQUIRE(Load(checkpoints, 1)->step == 1);
  }
  Overwrite(newest, whole);
  CHECK(Load(checkpoints, 0)->step == 2);
}

TEST_CASE("checkpoint: files that were swapped or belong to another run are refused") {
  const TemporaryFolder folder;
  const CheckpointFolder checkpoints(folder.path(), "run");
  checkpoints.Save(MakeCheckpoint(1));
  checkpoints.Save(MakeCheckpoint(2));
  std::vector<std::string> problems;
  CHECK_FALSE(CheckpointFolder(folder.path(), "other run").Load(problems));
  CHECK(problems.size() == 2);
  const auto files = folder.Files();
  const std::string first = io::ReadFile(files[0]);
  Overwrite(files[0], io::ReadFile(files[1]));
  Overwrite(files[1], first);
  CHECK_FALSE(Load(checkpoints, 2));
}

const Registries& AllRegistries() {
  static const Registries registries;
  return registries;
}

// Two lengths, short last batches, dropout, clipping: 10 steps an epoch, in all more than
// the device keeps losses of. Tested in 14 batches.
Cell MakeCell() {
  return ParseSuite(R"({"name": "mixture",
      "task": {"name": "mqar", "vocab_size": 32,
               "train": {"input_seq_len": [8, 12], "num_kv_pairs": [1, 2],
                         "num_examples": [102, 114]},
               "validation": {"num_examples": 40},
               "test": {"input_seq_len": [8, 10, 12, 14], "num_kv_pairs": [1, 2, 2, 2], "num_examples": 200}},
      "model": {"d_model": 16, "n_layers": 1, "embed_dropout": 0.1,
                "sequence_mixer": {"name": "attention"}},
      "train": {"lr": 0.005, "batch_size": 24, "eval_batch_tokens": 768, "num_epochs": 6,
                "max_steps": 57, "grad_clip": 1.0, "early_stop_accuracy": 0}})",
                    {}, AllRegistries())
      .cells.at(0);
}

reports::CellResult Run(const RunControl& control) {
  return RunTrainCell(MakeCell(), at::kCPU, AllRegistries(), control, [](const Progress&) {});
}

// Of everything in a result but times.
std::string Checksum(const reports::CellResult& result) {
  INFO(result.reason);
  CHECK(result.state == reports::CellState::kCompleted);
  return io::DumpJson(*reports::CellToValue(result).Find("integrity"));
}

// The cell without any interruption.
const std::string& WholeRun() {
  static const std::string checksum = Checksum(Run({}));
  return checksum;
}

TEST_CASE("resume: a cell stopped at any step or evaluation batch ends with the same bits") {
  const TemporaryFolder folder;
  // 57 steps, 6 validations of 4 batches and the test ask more than 80 questions. An attempt gets
  // so many; a validation and a tested length start again, so fewer than 5 would never end.
  const int questions_each = GENERATE(5, 7, 20);
  int attempts = 0;
  std::int64_t last_step = 0;
  reports::CellResult result;
  do {
    int questions = 0;
    result = Run({.stop_requested = [&] { return ++questions > questions_each; },
                  .checkpoint_folder = folder.path()});
    REQUIRE(++attempts < 400);
    CHECK(result.step >= last_step);
    last_step = result.step;
    if (result.state != reports::CellState::kInterrupted) break;
    CHECK_THAT(result.reason, Catch::Contains("state is saved"));
  } while (true);
  CHECK(attempts > 80 / (questions_each + 1));
  CHECK(result.resumed_from_step);
  CHECK(Checksum(result) == WholeRun());
}

// Saves at every question, an interval of nothing, and ends in between.
void CrashAfter(int num_questions, const Cell& cell, const fs::path& folder) {
  int questions = 0;
  struct Crash {};
  CHECK_THROWS_AS(RunTrainCell(cell, at::kCPU, AllRegistries(),
                               {.stop_requested = [&]() -> bool {
                                  if (++questions > num_questions) throw Crash();
                                  return false;
                                },
                                .checkpoint_folder = folder,
                                .checkpoint_interval_s = 0},
                               [](const Progress&) {}),
                  Crash);
}

TEST_CASE("resume: checkpoints at intervals change nothing and survive a crash") {
  const TemporaryFolder folder;
  CrashAfter(25, MakeCell(), folder.path());
  const auto result = Run({.checkpoint_folder = folder.path(), .checkpoint_interval_s = 1e9});
  CHECK(result.resumed_from_step.value_or(0) > 0);
  REQUIRE(result.phases);
  CHECK(result.phases->checkpoint_s > 0);
  CHECK(Checksum(result) == WholeRun());
}

TEST_CASE("resume: slow steps are saved one by one") {
  const TemporaryFolder folder;
  Cell cell = MakeCell();
  cell.train.steps_per_epoch = 40;
  cell.train.num_epochs = 1;
  CrashAfter(20, cell, folder.path());
  std::vector<std::string> problems;
  const auto checkpoint = CheckpointFolder(folder.path(), cell.run_id).Load(problems);
  REQUIRE(checkpoint);
  CHECK(checkpoint->step > 0);
  CHECK(checkpoint->step < 20);
}

TEST_CASE("resume: a checkpoint that cannot be written does not end the cell") {
  const auto result = Run({.checkpoint_folder = "/nonexistent", .checkpoint_interval_s = 0});
  CHECK(result.state == reports::CellState::kCompleted);
  int questions = 0;
  const auto stopped = Run({.stop_requested = [&] { return ++questions > 20; }});
  CHECK(stopped.state == reports::CellState::kInterrupted);
  CHECK_THAT(stopped.reason, !Catch::Contains("saved"));
}

}  // namespace
}  // namespace mixerbench::harness
