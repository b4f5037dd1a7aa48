// What only a GPU can show of cells: training repeats itself and survives a lack of memory, what is
// timed runs as graphs, the driver tells of the GPU. Without a GPU every case fails; nothing passes
// quietly.
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <string>

#include "harness/cells/throughput.h"
#include "harness/cells/train.h"
#include "harness/device/device.h"
#include "harness/device/gpu_monitor.h"
#include "harness/suite/registries.h"
#include "harness/suite/suite.h"
#include "io/json.h"
#include "reports/result/result_json.h"

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

const Registries& AllRegistries() {
  static const Registries registries;
  return registries;
}

at::Device Gpu() {
  SetNumerics(/*allow_tf32=*/false);
  return ParseDevice("cuda");
}

TEST_CASE("gpu: training twice gives the same bits and learns") {
  const at::Device gpu = Gpu();
  for (const char* dtype : {"fp32", "bf16"}) {
    SuiteOverrides overrides;
    overrides.device_type = "cuda";
    overrides.set = {{"train.dtype", dtype}};
    const Cell cell = ParseSuite(R"({"name": "tiny",
        "task": {"name": "mqar", "vocab_size": 16, "noise": "zero", "input_seq_len": 8,
                 "num_kv_pairs": 1, "train": {"num_examples": 256},
                 "validation": {"num_examples": 64}, "test": {"num_examples": 100}},
        "model": {"d_model": 32, "n_layers": 2, "sequence_mixer": {"name": "delta_net"}},
        "train": {"lr": 0.005, "batch_size": 32, "num_epochs": 20, "early_stop_accuracy": 0}})",
                                 overrides, AllRegistries())
                          .cells.at(0);
    const auto run = [&] {
      auto result = RunTrainCell(cell, gpu, AllRegistries(), {}, [](const Progress&) {});
      for (auto& point : result.learning_curve) point.elapsed_s = 0;
      result.phases.reset();
      return result;
    };
    const auto first = run();
    INFO(dtype << " " << first.reason);
    REQUIRE(first.state == reports::CellState::kCompleted);
    CHECK(*first.accuracy.front().accuracy > 0.9);
    CHECK(io::DumpJson(reports::CellToValue(first)) == io::DumpJson(reports::CellToValue(run())));
  }
}

TEST_CASE("gpu: lack of memory is a state, and the next cell is not affected") {
  const at::Device gpu = Gpu();
  SuiteOverrides overrides;
  overrides.device_type = "cuda";
  const auto suite = [&](const std::string& batch_size) {
    SuiteOverrides with = overrides;
    with.set = {{"train.batch_size", batch_size}};
    return ParseSuite(R"({"name": "oom",
        "task": {"name": "mqar", "vocab_size": 8192, "input_seq_len": 1024, "num_kv_pairs": 4,
                 "noise": "zero", "train": {"num_examples": 4000000},
                 "validation": {"num_examples": 8}, "test": {"num_examples": 8}},
        "model": {"d_model": 256, "n_layers": 2, "sequence_mixer": {"name": "attention"}},
        "train": {"num_epochs": 1, "max_steps": 1}})",
                      with, AllRegistries())
        .cells.at(0);
  };
  const auto run = [&](const Cell& cell) {
    return RunTrainCell(cell, gpu, AllRegistries(), {}, [](const Progress&) {});
  };
  const auto too_large = run(suite("1000000"));
  INFO(too_large.reason);
  CHECK(too_large.state == reports::CellState::kOom);
  const auto fits = run(suite("4"));
  INFO(fits.reason);
  CHECK(fits.state == reports::CellState::kCompleted);
}

Cell SpeedCell(const std::string& mixer, const std::string& dtype, const std::string& d_model,
               const std::string& phases = R"("train_step", "fwd", "fwd_bwd")",
               const std::string& seq_len = "64, 1000") {
  SuiteOverrides overrides;
  overrides.device_type = "cuda";
  overrides.set = {{"train.dtype", dtype},
                   {"model.d_model", d_model},
                   {"model.sequence_mixer.name", mixer},
                   {"throughput.phases", "[" + phases + "]"},
                   {"throughput.seq_len", "[" + seq_len + "]"}};
  const Suite suite = ParseSuite(R"({"name": "speed",
      "task": {"name": "mqar", "vocab_size": 512, "input_seq_len": 64, "num_kv_pairs": 4,
               "noise": "zero", "train": {"num_examples": 4096}, "validation": {"num_examples": 8},
               "test": {"num_examples": 8}},
      "model": {"n_layers": 2}, "train": {"batch_size": 128},
      "throughput": {"batch_size": 128, "num_samples": 5}})",
                                 overrides, AllRegistries());
  for (const Cell& cell : suite.cells) {
    if (cell.kind == CellKind::kThroughput) return cell;
  }
  FAIL("no speed cell");
  return {};
}

TEST_CASE("gpu: what is timed is compared, its plans and its memory are told") {
  const at::Device gpu = Gpu();
  for (const auto& [mixer, entry] : AllRegistries().mixers.entries()) {
    for (const char* dtype : {"fp32", "bf16"}) {
      const auto result = RunThroughputCell(SpeedCell(mixer, dtype, "64"), gpu, AllRegistries(), {},
                                            [](const Progress&) {});
      INFO(mixer << " " << dtype << " " << result.reason);
      CHECK(result.state == reports::CellState::kCompleted);
      for (const auto& row : result.throughput) {
        CAPTURE(row.phase, row.seq_len, row.reason);
        REQUIRE(row.parity);
        UNSCOPED_INFO(row.parity->quantity << " " << row.parity->error << " of "
                                           << row.parity->tolerance);
        CHECK(row.parity_check == "passed");
        CHECK(row.execution == "graph");
        // Not with the buffer of 128 MiB that flushes the cache: this one needs less by far.
        if (row.seq_len == 64 && mixer == "linear_attention") {
          CHECK(row.peak_memory_bytes.value_or(-1) < std::int64_t{128} << 20);
        }
      }
      CHECK(result.plans.size() == 5);
      for (const auto& plan : result.plans) CHECK(plan.eager_reason.empty());
    }
  }
}

TEST_CASE("gpu: prompts are read and tokens decoded by graphs, from a state and to one") {
  const at::Device gpu = Gpu();
  for (const auto& [mixer, entry] : AllRegistries().mixers.entries()) {
    for (const char* dtype : {"fp32", "bf16"}) {
      const auto result = RunThroughputCell(SpeedCell(mixer, dtype, "64", R"("prefill", "decode")"),
                                            gpu, AllRegistries(), {}, [](const Progress&) {});
      INFO(mixer << " " << dtype << " " << result.reason);
      CHECK(result.state == reports::CellState::kCompleted);
      CHECK(result.throughput.size() == 4);  // of each phase two lengths
      for (const auto& row : result.throughput) {
        CAPTURE(row.phase, row.reason);
        CHECK(row.parity_check == "passed");
        CHECK(row.execution == "graph");
      }
      for (const auto& plan : result.plans) CHECK(plan.eager_reason == "");
    }
  }
}

TEST_CASE("gpu: the driver tells what a GPU is, whether it is slowed down, what it uses") {
  const at::Device gpu = Gpu();
  const GpuMonitor monitor = GpuMonitor::At(PciBusId(gpu));
  CHECK(monitor.DriverVersion().value_or("").find('.') != std::string::npos);
  CHECK(monitor.Uuid().value_or("").starts_with("GPU-"));
  CHECK(monitor.SmClockMhz().value_or(0) > 100);
  CHECK(monitor.MaxSmClockMhz().value_or(0) >= monitor.SmClockMhz().value_or(1));
  CHECK(monitor.MemoryClockMhz().value_or(0) > 100);
  CHECK(monitor.PowerLimitWatts().value_or(0) > 50);
  CHECK(monitor.ThrottleReasons());
  CHECK(monitor.UtilizationPercent().value_or(-1) >= 0);
  CHECK(monitor.ComputeProcesses());
  const auto before = monitor.EnergyJoules();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  while (std::chrono::steady_clock::now() < end) {
    FlushCache(gpu);
    Synchronize(gpu);
  }
  const double used_j = monitor.EnergyJoules().value_or(0) - before.value_or(0);
  // Between what a GPU takes that has nothing to do and what none has power for.
  CHECK(used_j > 20);
  CHECK(used_j < 3000);
}

TEST_CASE("gpu: plans name the device code, or why there is none") {
  const at::Device gpu = Gpu();
  const auto core = [&](const std::string& mixer, const std::string& d_model) {
    const auto result = RunThroughputCell(SpeedCell(mixer, "bf16", d_model), gpu, AllRegistries(),
                                          {}, [](const Progress&) {});
    for (const auto& plan : result.plans) {
      for (const auto& function : plan.functions) {
        if (plan.phase == "fwd_bwd" && plan.seq_len == 64 && function.is_core) return function;
      }
    }
    FAIL("no core ran");
    return reports::FunctionPlan{};
  };
  CHECK(core("gla", "64").forward == "fused");
  CHECK(core("gla", "64").backward == "fused");
  CHECK(core("gla", "64").reason.empty());
  CHECK(core("attention", "64").backward == "whole");
  CHECK(core("delta_net", "96").forward == "fused, keys padded to 64, values padded to 64");
  const auto fallback = core("log_linear", "64");
  CHECK(fallback.forward == "aten_chunk");
  CHECK(fallback.reason == "has no device code");
  const auto refused =
      RunThroughputCell(SpeedCell("log_linear", "bf16", "64"), gpu, AllRegistries(),
                        {.require_device_cores = true}, [](const Progress&) {});
  CHECK(refused.state == reports::CellState::kUnsupported);
  CHECK_THAT(refused.reason, Catch::Contains("has no device code"));
}

}  // namespace
}  // namespace mixerbench::harness
