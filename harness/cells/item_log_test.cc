// A cell whose scored positions are asked for: the same result, and files that give its rows.
// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <filesystem>
#include <string>

#include "harness/cells/train.h"
#include "harness/suite/suite.h"
#include "io/atomic_file.h"
#include "reports/items/items.h"
#include "reports/result/result_json.h"

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

namespace fs = std::filesystem;

const Registries& AllRegistries() {
  static const Registries registries;
  return registries;
}

// Four steps, tested on two lengths in slices.
Cell MakeCell() {
  const std::string suite = R"({"name": "one",
      "task": {"name": "mqar", "vocab_size": 32,
               "train": {"input_seq_len": 16, "num_kv_pairs": 2, "num_examples": 96},
               "validation": {"num_examples": 40},
               "test": {"input_seq_len": [16, 32], "num_kv_pairs": [2, 4], "num_examples": 50}},
      "model": {"d_model": 16, "n_layers": 1, "sequence_mixer": {"name": "attention"}},
      "train": {"batch_size": 24, "num_epochs": 1, "early_stop_accuracy": 0,
                "eval_batch_tokens": 256}})";
  return ParseSuite(suite, {}, AllRegistries()).cells.at(0);
}

fs::path NewFolder(const std::string& name) {
  const fs::path folder = fs::path(std::getenv("TEST_TMPDIR")) / name;
  fs::create_directories(folder);
  return folder;
}

reports::CellResult Run(const RunControl& control) {
  auto result =
      RunTrainCell(MakeCell(), at::kCPU, AllRegistries(), control, [](const Progress&) {});
  INFO(result.reason);
  CHECK(result.state == reports::CellState::kCompleted);
  return result;
}

std::string Checksum(const reports::CellResult& result) {
  const Value document = reports::CellToValue(result);
  return document.Find("integrity")->Find("content_sha256")->as_string();
}

TEST_CASE("item log: the files give the rows, and asking for them changes no result") {
  const reports::CellResult without = Run({});
  CHECK(without.items.empty());
  for (const std::string suffix : {".jsonl", ".jsonl.zst"}) {
    const fs::path folder = NewFolder("items" + suffix);
    const reports::CellResult result = Run({.item_suffix = suffix, .item_folder = folder});
    CHECK(Checksum(result) == Checksum(without));
    REQUIRE(result.items.size() == 2);
    CHECK(result.items[1].file == "items-1" + suffix);
    CHECK(result.items[0].num_items == 50 * 2);
    CHECK(result.items[1].num_items == 50 * 4);
    const auto read = reports::ParseCell(reports::DumpCell(result), "result.json");
    REQUIRE(read.items.size() == 2);
    for (const reports::KeptItems& items : read.items) {
      CHECK(reports::ItemFaults(folder, read, items) == std::vector<std::string>());
    }
  }
}

TEST_CASE("item log: a folder that takes no files costs the items and not the result") {
  const reports::CellResult result =
      Run({.item_suffix = ".jsonl", .item_folder = NewFolder("gone") / "no such folder"});
  CHECK(result.items.empty());
  CHECK(Checksum(result) == Checksum(Run({})));
}

TEST_CASE("item log: segments scored before it was asked for are scored again") {
  const fs::path folder = NewFolder("resumed");
  bool stop = false;
  const RunControl before{.stop_requested = [&] { return stop; }, .checkpoint_folder = folder};
  int num_calls = 0;
  // Four calls belong to the first segment, of 50 samples in batches of 16.
  const auto interrupted =
      RunTrainCell(MakeCell(), at::kCPU, AllRegistries(), before, [&](const Progress& progress) {
        if (progress.step == progress.num_steps && progress.validation_accuracy) {
          stop = ++num_calls > 4;
        }
      });
  REQUIRE(interrupted.state == reports::CellState::kInterrupted);
  REQUIRE_FALSE(interrupted.accuracy.empty());
  const reports::CellResult result =
      Run({.checkpoint_folder = folder, .item_suffix = ".jsonl", .item_folder = folder});
  CHECK(result.items.size() == 2);
  CHECK(Checksum(result) == Checksum(Run({})));
}

}  // namespace
}  // namespace mixerbench::harness
