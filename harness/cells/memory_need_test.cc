// SPDX-License-Identifier: Apache-2.0
#include "harness/training/memory_need.h"

#include <sys/resource.h>

#include "harness/cells/train.h"
#include "harness/suite/suite.h"
#include "harness/training/model.h"

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

const Registries& AllRegistries() {
  static const Registries registries;
  return registries;
}

Cell CellWith(const io::Settings& set) {
  return ParseSuite(R"({"name": "memory",
      "task": {"name": "mqar", "vocab_size": 64, "noise": "zero", "num_kv_pairs": 2,
               "train": {"input_seq_len": [8, 16], "num_examples": 100},
               "test": {"input_seq_len": 16}},
      "model": {"d_model": 16, "n_layers": 2, "sequence_mixer": {"name": "attention"}},
      "train": {"batch_size": 32}})",
                    {.set = set}, AllRegistries())
      .cells.at(0);
}

TEST_CASE("memory: what a training step needs at least follows from the shapes") {
  const Cell cell = CellWith({});
  const MemoryNeed need = EstimateMemory(cell, at::kCPU, AllRegistries());
  const auto count = BuildModel(cell, at::kCPU, AllRegistries()).parameters->num_elements();
  CHECK(need.parameters == 4.0 * static_cast<double>(count));
  CHECK(need.gradients == need.parameters);
  CHECK(need.optimizer == 2 * need.parameters);
  // Two tensors [32,16,16] a layer, logits [32 * 2,64].
  CHECK(need.activations == 4.0 * (32 * 16 * 16 * 2 * 2 + 32 * 2 * 64));
  CHECK(
      EstimateMemory(CellWith({{"train.dtype", "bf16"}}), at::kCPU, AllRegistries()).activations ==
      2.0 * (32 * 16 * 16 * 2 * 2) + 4.0 * (32 * 2 * 64));
}

TEST_CASE("memory: every mixer can be counted without memory for it") {
  for (const std::string& name : AllRegistries().mixers.Names()) {
    if (name == "hybrid") continue;  // holds others
    INFO(name);
    const Cell cell = CellWith({{"model.sequence_mixer.name", name}});
    const auto count = BuildModel(cell, at::kCPU, AllRegistries()).parameters->num_elements();
    CHECK(EstimateMemory(cell, at::kCPU, AllRegistries()).parameters ==
          4.0 * static_cast<double>(count));
  }
}

TEST_CASE("memory: a cell that can never fit is refused with figures, and nothing is taken") {
  Cell cell = CellWith({});
  cell.model.as_object()["d_model"] = 65536;
  cell.model.as_object()["n_layers"] = 64;
  const auto result = RunTrainCell(cell, at::kCPU, AllRegistries(), {}, [](const Progress&) {});
  CHECK(result.state == reports::CellState::kOom);
  // 64 layers of 4 D^2 floats are 4096 GiB, and four times that with gradients and moments.
  CHECK_THAT(result.reason, Catch::StartsWith("needs at least 164") &&
                                Catch::Contains("(parameters 409") &&
                                Catch::Contains("GiB in all"));
}

TEST_CASE("memory: limits of the process count") {
  CHECK(TotalMemory(at::kCPU) > 0);
  rlimit old{};
  getrlimit(RLIMIT_DATA, &old);
  const rlimit limit{rlim_t{1} << 30, old.rlim_max};
  setrlimit(RLIMIT_DATA, &limit);
  CHECK(TotalMemory(at::kCPU) <= static_cast<double>(limit.rlim_cur));
  setrlimit(RLIMIT_DATA, &old);
}

TEST_CASE("memory: a lack is described by its parts") {
  constexpr double kGiB = 1024.0 * 1024 * 1024;
  const MemoryNeed need = {.parameters = 6 * kGiB,
                           .gradients = 6 * kGiB,
                           .optimizer = 12 * kGiB,
                           .activations = kGiB / 4};
  CHECK(DescribeLack(need, 25 * kGiB).empty());
  CHECK(DescribeLack(need, 22.9 * kGiB) ==
        "needs at least 24.2 GiB (parameters 6.0, gradients 6.0, optimizer 12.0, activations 0.2), "
        "and there are 22.9 GiB in all");
}

}  // namespace
}  // namespace mixerbench::harness
