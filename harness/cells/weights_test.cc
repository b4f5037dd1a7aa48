// SPDX-License-Identifier: Apache-2.0
#include "harness/training/weights.h"

#include <filesystem>
#include <fstream>
#include <set>

#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>

#include "base/sha256.h"
#include "harness/cells/train.h"
#include "harness/suite/suite.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "io/tensor_file.h"
#include "reports/result/result_json.h"
#include "tests/support/temporary_folder.h"

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;

const Registries& AllRegistries() {
  static const Registries registries;
  return registries;
}

// 16 steps in two epochs; tested on these lengths.
Cell MakeCell(const std::string& test_lengths, const std::string& lr = "0.005") {
  const std::string suite = R"({"name": "one",
      "task": {"name": "mqar", "vocab_size": 32,
               "train": {"input_seq_len": [8], "num_kv_pairs": [1], "num_examples": [192]},
               "validation": {"num_examples": 40},
               "test": {"input_seq_len": [)" +
                            test_lengths + R"(], "num_kv_pairs": 1, "num_examples": 40}},
      "model": {"d_model": 16, "n_layers": 1, "embed_dropout": 0.1,
                "sequence_mixer": {"name": "attention"}},
      "train": {"lr": )" + lr +
                            R"(, "batch_size": 24, "num_epochs": 2, "early_stop_accuracy": 0}})";
  return ParseSuite(suite, {}, AllRegistries()).cells.at(0);
}

constexpr std::int64_t kLimit = 1 << 20;

struct Ran {
  reports::CellResult result;
  std::set<std::int64_t> steps;  // that somebody was told of
};

Ran Run(const Cell& cell, const RunControl& control) {
  Ran ran;
  ran.result = RunTrainCell(cell, at::kCPU, AllRegistries(), control,
                            [&](const Progress& progress) { ran.steps.insert(progress.step); });
  INFO(ran.result.reason);
  return ran;
}

// Of everything in a result but times.
std::string Checksum(const reports::CellResult& result) {
  INFO(result.reason);
  CHECK(result.state == reports::CellState::kCompleted);
  const Value document = reports::CellToValue(result);
  return io::DumpJson(*document.Find("integrity")->Find("content_sha256"));
}

TEST_CASE("weights: other test lengths are another cell of the same training") {
  const Cell one = MakeCell("8");
  const Cell more = MakeCell("8, 12");
  CHECK(one.training_id.size() == 64);
  CHECK(one.training_id == more.training_id);
  CHECK(one.run_id != more.run_id);
  CHECK(one.training_id != MakeCell("8", "0.004").training_id);
}

TEST_CASE("weights: one more length is evaluated and nothing is trained, to the same bits") {
  const TemporaryFolder folder;
  const RunControl control{.weights_folder = folder.path(), .max_weight_bytes = kLimit};
  const Ran first = Run(MakeCell("8"), control);
  REQUIRE(first.result.weights);
  CHECK_FALSE(first.result.weights->reused);
  CHECK(first.steps.size() > 1);
  const fs::path file = folder.TheFile();
  CHECK("sha256:" + io::HashFile(file) == first.result.weights->sha256);

  const Ran more = Run(MakeCell("8, 12"), control);
  REQUIRE(more.result.weights);
  CHECK(more.result.weights->reused);
  CHECK(more.steps == std::set<std::int64_t>{16});
  CHECK(more.result.phases->train_s == first.result.phases->train_s);
  CHECK(more.result.accuracy.size() > first.result.accuracy.size());
  CHECK(Checksum(more.result) == Checksum(Run(MakeCell("8, 12"), {}).result));
  CHECK(folder.TheFile() == file);
}

TEST_CASE("weights: damaged ones are passed over, and training replaces them") {
  const TemporaryFolder folder;
  const RunControl control{.weights_folder = folder.path(), .max_weight_bytes = kLimit};
  const Cell cell = MakeCell("8");
  const std::string whole = Checksum(Run(cell, control).result);
  const fs::path file = folder.TheFile();
  std::string bytes = io::ReadFile(file);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;

  std::vector<std::string> problems;
  CHECK_FALSE(WeightsFolder(folder.path(), cell.training_id).Load(problems));
  REQUIRE(problems.size() == 1);
  CHECK_THAT(problems[0], Catch::Contains("damaged"));
  const Ran again = Run(cell, control);
  CHECK_FALSE(again.result.weights.value().reused);
  CHECK(again.steps.size() > 1);
  CHECK(Checksum(again.result) == whole);
  CHECK(Run(cell, control).result.weights.value().reused);
}

TEST_CASE("weights: a crash between training and evaluation costs no training") {
  const TemporaryFolder folder;
  struct Crash {};
  RunControl control{.weights_folder = folder.path(), .max_weight_bytes = kLimit};
  control.stop_requested = [&]() -> bool {
    if (!fs::is_empty(folder.path())) throw Crash();  // nothing after the weights are there
    return false;
  };
  CHECK_THROWS_AS(Run(MakeCell("8"), control), Crash);
  control.stop_requested = nullptr;
  const Ran second = Run(MakeCell("8"), control);
  CHECK(second.result.weights.value().reused);
  CHECK(second.steps == std::set<std::int64_t>{16});
  CHECK(Checksum(second.result) == Checksum(Run(MakeCell("8"), {}).result));
}

TEST_CASE("weights: a training of any number of epochs is kept with them") {
  const TemporaryFolder folder;
  const Cell cell = MakeCell("8");
  const WeightsFolder weights(folder.path(), cell.training_id);
  FinalWeights saved{.training = ResultOf(cell), .parameters = {{"w", at::ones({3})}}};
  saved.training.state = reports::CellState::kCompleted;
  for (int epoch = 1; epoch <= 20'000; ++epoch) {
    reports::LearningPoint& point = saved.training.learning_curve.emplace_back();
    point.step = epoch;
    point.train_loss = 1. / epoch;
  }
  const auto kept = weights.Save(saved, std::int64_t{1} << 30);
  REQUIRE(kept);
  std::vector<std::string> problems;
  const auto loaded = weights.Load(problems);
  CHECK(problems.empty());
  REQUIRE(loaded);
  CHECK(reports::DumpCell(loaded->training) == reports::DumpCell(saved.training));
  CHECK(loaded->parameters.size() == 1);
  CHECK(loaded->parameters.at("w").equal(at::ones({3})));
  const std::string digits = kept->sha256.substr(std::string("sha256:").size());
  CHECK(ReadKeptWeights(folder.path(), digits)->tensors.size() == 1);
}

TEST_CASE("weights: those that keep the training in their metadata are read") {
  const TemporaryFolder folder;
  const Cell cell = MakeCell("8");
  reports::CellResult training = ResultOf(cell);
  training.state = reports::CellState::kCompleted;
  training.step = 16;
  io::TensorFile file;
  file.tensors["w"] = {io::ElementType::kF32, {1}, std::string(4, '\0')};
  file.metadata = {{"format", "mixerbench-weights-1"},
                   {"training_id", cell.training_id},
                   {"training", io::DumpJson(reports::CellToValue(training))}};
  const std::string bytes = io::WriteSafetensors(file);
  const std::string name = cell.training_id.substr(0, 16) + "-" + Sha256Hex(bytes);
  io::WriteFileAtomically(folder.path() / (name + ".safetensors"), bytes);
  std::vector<std::string> problems;
  const auto loaded = WeightsFolder(folder.path(), cell.training_id).Load(problems);
  CHECK(problems.empty());
  REQUIRE(loaded);
  CHECK(loaded->training.step == 16);
  CHECK(loaded->parameters.size() == 1);
}

TEST_CASE("weights: none are kept above the limit, nor where they cannot be written") {
  const TemporaryFolder folder;
  const Ran large = Run(MakeCell("8"), {.weights_folder = folder.path(), .max_weight_bytes = 100});
  CHECK(large.result.state == reports::CellState::kCompleted);
  CHECK_FALSE(large.result.weights);
  CHECK(fs::is_empty(folder.path()));
  const Ran nowhere =
      Run(MakeCell("8"), {.weights_folder = "/proc/nowhere", .max_weight_bytes = kLimit});
  CHECK(nowhere.result.state == reports::CellState::kCompleted);
  CHECK_FALSE(nowhere.result.weights);
}

}  // namespace
}  // namespace mixerbench::harness
