// SPDX-License-Identifier: Apache-2.0
#include "harness/run/disk_need.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "harness/run/plan.h"
#include "harness/suite/suite.h"
#include "harness/training/memory_need.h"

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

constexpr double kKiB = 1024;

const Registries& AllRegistries() {
  static const Registries registries;
  return registries;
}

// Two widths by two seeds.
std::vector<Cell> CellsOf(const std::string& sections = "") {
  return ParseSuite(R"({"name": "disk",
      "task": {"name": "mqar", "vocab_size": 64, "noise": "zero", "input_seq_len": 16,
               "num_kv_pairs": 2, "train": {"num_examples": 100},
               "test": {"num_examples": 1000}},
      "model": {"d_model": 16, "n_layers": 2, "sequence_mixer": {"name": "attention"}},
      "sweep": {"grid": {"model.d_model": [16, 256]}}, "seeds": {"count": 2})" +
                        sections + "}",
                    {}, AllRegistries())
      .cells;
}

double ParameterBytes(const Cell& cell) {
  return EstimateMemory(cell, at::kCPU, AllRegistries()).parameters;
}

std::filesystem::path NoFolder() {
  return std::filesystem::path(std::getenv("TEST_TMPDIR")) / "none";
}

DiskNeed Estimate(const std::vector<Cell>& cells, std::size_t at_once, const CellOptions& options,
                  const std::filesystem::path& out = NoFolder()) {
  std::vector<std::size_t> pending;
  for (std::size_t i = 0; i < cells.size(); ++i) pending.push_back(i);
  return EstimateDisk(cells, pending, at_once, options, at::kCPU, out, AllRegistries());
}

TEST_CASE("disk: what a run may need follows from parameters, cells and options") {
  const std::vector<Cell> cells = CellsOf();
  REQUIRE(cells.size() == 4);
  double all = 0, largest = 0;
  for (const Cell& cell : cells) {
    all += ParameterBytes(cell);
    largest = std::max(largest, ParameterBytes(cell));
  }
  const DiskNeed need = Estimate(cells, 2, {});
  CHECK(need.results == 4 * (64 + 128) * kKiB);
  // Both wide ones at once: three checkpoints each of parameters and two moments.
  CHECK(need.checkpoints == 2 * 3 * (3 * largest + 32 * kKiB));
  CHECK(need.weights == all + 4 * 32 * kKiB);
  CHECK(need.items == 0);
  CHECK(need.total() == need.results + need.checkpoints + need.weights);
  CHECK(need.least() == need.weights + need.results / 8);
  CHECK(Estimate(cells, 100, {}).checkpoints == 3 * (3 * all + 4 * 32 * kKiB));
  CHECK(Estimate(cells, 2, {.checkpoint_interval_s = 0}).checkpoints == 0);
  CHECK(Estimate(cells, 2, {.weights_limit_mib = 0}).weights == 0);
  // 1 MiB is above the narrow ones and below the wide ones.
  CHECK(Estimate(cells, 2, {.weights_limit_mib = 1}).weights == all - 2 * largest + 2 * 32 * kKiB);
  CHECK(Estimate(cells, 2, {.log_items = "jsonl"}).items == 4 * 1000 * 2 * 256);
  CHECK(Estimate(cells, 2, {.log_items = "zstd"}).items == 4 * 1000 * 2 * 32);
  CHECK_THAT(DescribeDisk(Estimate(cells, 2, {.checkpoint_interval_s = 0, .weights_limit_mib = 0})),
             Catch::Equals("96 KiB to 768 KiB (results 768 KiB)"));
}

TEST_CASE("disk: weights that other cells use are counted whatever is kept") {
  const std::vector<Cell> cells = CellsOf(R"(,
      "evaluate": [{"input_seq_len": 16, "num_examples": 10}])");
  double all = 0;
  for (const Cell& cell : cells) {
    if (cell.kind == CellKind::kTrain) all += ParameterBytes(cell) + 32 * kKiB;
  }
  CHECK(Estimate(cells, 2, {.weights_limit_mib = 0}).weights == all);
}

TEST_CASE("disk: checkpoints that are there give way and are not asked for again") {
  const std::vector<Cell> cells = CellsOf();
  const auto out = std::filesystem::path(std::getenv("TEST_TMPDIR")) / "held";
  const auto folder = CellFolder(out, cells[0].run_id) / "strict";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "checkpoint-1.safetensors") << std::string(1000, 'x');
  CHECK(Estimate(cells, 2, {}, out).checkpoints == Estimate(cells, 2, {}).checkpoints - 1000);
}

TEST_CASE(
    "disk: a training that memory cannot hold saves nothing, and nothing pending needs nothing") {
  std::vector<Cell> cells = CellsOf();
  for (Cell& cell : cells) {
    cell.model.as_object()["d_model"] = 65536;
    cell.model.as_object()["n_layers"] = 64;
  }
  const DiskNeed need = Estimate(cells, 4, {});
  CHECK(need.total() == need.results);
  CHECK(EstimateDisk(cells, {}, 4, {}, at::kCPU, NoFolder(), AllRegistries()).total() == 0);
}

}  // namespace
}  // namespace mixerbench::harness
