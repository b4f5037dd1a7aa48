// SPDX-License-Identifier: Apache-2.0
#include "harness/cells/throughput.h"

#include <chrono>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "harness/device/fake_gpu.h"
#include "harness/suite/suite.h"
#include "reports/result/result_json.h"

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

const Registries& AllRegistries() {
  static const Registries registries;
  return registries;
}

Cell TinyCell(const std::string& mixer, const std::string& throughput,
              std::vector<std::pair<std::string, std::string>> set = {}) {
  SuiteOverrides overrides;
  overrides.set = {{"model.sequence_mixer.name", mixer}};
  overrides.set.insert(overrides.set.end(), set.begin(), set.end());
  const Suite suite = ParseSuite(R"({"name": "tiny",
      "task": {"name": "mqar", "vocab_size": 32, "noise": "zero",
               "train": {"input_seq_len": [8, 16], "num_kv_pairs": [1, 2], "num_examples": 20},
               "validation": {"num_examples": 4},
               "test": {"input_seq_len": 8, "num_kv_pairs": 1, "num_examples": 4}},
      "model": {"d_model": 16, "n_layers": 2, "embed_dropout": 0.1},
      "train": {"batch_size": 8}, "throughput": )" +
                                     throughput + "}",
                                 overrides, AllRegistries());
  for (const Cell& cell : suite.cells) {
    if (cell.kind == CellKind::kThroughput) return cell;
  }
  FAIL("the suite measures nothing");
  return {};
}

reports::CellResult Run(const Cell& cell, const RunControl& control = {}) {
  return RunThroughputCell(cell, at::kCPU, AllRegistries(), control, [](const Progress&) {});
}

constexpr const char* kAllPhases =
    R"({"seq_len": [8, 40], "batch_size": 4, "num_samples": 3,
        "phases": ["fwd", "fwd_bwd", "prefill", "decode", "train_step"]})";

TEST_CASE("throughput: every mixer is compared as it is timed, in fp32 and bf16") {
  for (const auto& [mixer, entry] : AllRegistries().mixers.entries()) {
    for (const std::string dtype : {"fp32", "bf16"}) {
      CAPTURE(mixer, dtype);
      const auto result = Run(TinyCell(mixer, kAllPhases, {{"train.dtype", dtype}}));
      INFO(result.reason);
      REQUIRE(result.state == reports::CellState::kCompleted);
      REQUIRE(result.throughput.size() == 9);
      for (const auto& row : result.throughput) {
        CAPTURE(row.phase, row.seq_len);
        CHECK(row.dtype == dtype);
        CHECK(row.parity_check == "passed");
        REQUIRE(row.parity);
        const bool is_decode = row.phase == "decode";
        CHECK(row.parity->passes == (row.phase == "fwd"                    ? "forward"
                                     : is_decode || row.phase == "prefill" ? "forward, state"
                                                                           : "forward, backward"));
        CHECK(row.parity->num_sequences == row.batch_size);  // all of it: it is small
        CHECK(row.parity->num_tokens == (is_decode ? 1 : row.seq_len));
        CHECK(*row.tokens_per_second * *row.median_ms ==
              Approx(1e3 * static_cast<double>(row.batch_size * row.parity->num_tokens)));
        CHECK(row.parity->error <= row.parity->tolerance);
        CHECK(row.samples_ms.size() == 3);
        CHECK(row.execution == "eager");
      }
      CHECK(result.throughput.back().seq_len == 8);  // the first training segment alone
      CHECK(result.throughput.back().batch_size == 8);
    }
  }
}

// The reference goes through the first sequences alone, which drop out the same elements there.
TEST_CASE("throughput: of a large batch the first sequences are compared") {
  const auto result = Run(TinyCell("attention",
                                   R"({"seq_len": [400], "batch_size": 7, "num_samples": 3,
                       "phases": ["fwd_bwd", "train_step"]})",
                                   {{"train.batch_size", "200"},
                                    {"task.train.num_examples", "400"},
                                    {"model.sequence_mixer.dropout", "0.2"}}));
  INFO(result.reason);
  REQUIRE(result.state == reports::CellState::kCompleted);
  REQUIRE(result.throughput.size() == 2);
  CHECK(result.throughput[0].parity->num_sequences == 2);
  CHECK(result.throughput[0].parity->num_tokens == 400);
  CHECK(result.throughput[1].parity->num_sequences == 128);
  CHECK(result.throughput[1].parity->num_tokens == 8);
}

TEST_CASE("throughput: a step of a training in stages, or with a warm-up, is timed without them") {
  const auto result = Run(TinyCell(
      "attention", R"({"num_samples": 30, "phases": ["train_step"]})",
      {{"train.batch_order", "stages"}, {"train.num_epochs", "4"}, {"train.warmup_steps", "9"}}));
  INFO(result.reason);
  CHECK(result.state == reports::CellState::kCompleted);
}

TEST_CASE("throughput: where no size fits in memory nothing was measured") {
  using S = reports::CellState;
  const auto state = [](const std::vector<S>& rows) {
    reports::CellResult result;
    result.state = S::kCompleted;
    for (const S row : rows) result.throughput.emplace_back().state = row;
    TakeStateOfTimings(result);
    return result.state;
  };
  CHECK(state({S::kCompleted, S::kOom}) == S::kCompleted);
  CHECK(state({S::kOom, S::kOom}) == S::kOom);
  CHECK(state({S::kCompleted, S::kOom, S::kError}) == S::kError);
  CHECK(state({S::kCompleted, S::kSkipped}) == S::kCompleted);
}

TEST_CASE("throughput: what ran is part of the result, for every phase and shape") {
  const auto result = Run(TinyCell("delta_net", kAllPhases));
  CHECK(result.model.path == "fast");
  REQUIRE(result.plans.size() == 9);
  std::set<std::string> functions;
  for (const auto& plan : result.plans) {
    bool has_core = false;
    for (const auto& function : plan.functions) {
      functions.insert(function.function);
      if (!function.is_core) continue;
      has_core = true;
      CHECK(function.function == "delta_rule");
      CHECK(function.forward == "aten_chunk");
      const bool has_backward = plan.phase == "fwd_bwd" || plan.phase == "train_step";
      CHECK(function.backward == (has_backward ? "aten_chunk" : ""));
      CHECK(function.reason == "runs on the CPU");
      CHECK(function.scopes == std::vector<std::string>{"layers.0", "layers.1"});
    }
    CHECK(has_core);
  }
  for (const char* function : {"adamw", "embedding", "linear", "linear_cross_entropy",
                               "residual_norm", "short_convolution", "output_norm"}) {
    CHECK(functions.contains(function));
  }
  const Value written = reports::CellToValue(result);
  CHECK(reports::CellToValue(reports::CellFromValue(written)) == written);
}

TEST_CASE("throughput: memory is that of the work, not of the process") {
  const auto at = [](const std::string& lengths) {
    const auto result = Run(TinyCell(
        "gla", R"({"batch_size": 2, "num_samples": 3, "phases": ["fwd_bwd"], "seq_len": )" +
                   lengths + "}"));
    std::vector<std::int64_t> bytes;
    for (const auto& row : result.throughput) bytes.push_back(row.peak_memory_bytes.value());
    return bytes;
  };
  const auto peaks = at("[1024, 64]");
  REQUIRE(peaks.size() == 2);
  CHECK(peaks[1] > 0);
  CHECK(peaks[1] < 16 << 20);      // a process with libtorch holds hundreds of MiB
  CHECK(4 * peaks[1] < peaks[0]);  // a short row does not show the peak of a long one
  CHECK(at("[64, 1024]") == std::vector<std::int64_t>{peaks[1], peaks[0]});
}

TEST_CASE("throughput: without device code a cell is unsupported when device cores are required") {
  const auto result =
      Run(TinyCell("gla", R"({"seq_len": [8], "num_samples": 3})"), {.require_device_cores = true});
  CHECK(result.state == reports::CellState::kUnsupported);
  CHECK_THAT(result.reason, Catch::Contains("--require-device-cores: gla in layers.0 runs "
                                            "by aten_chunk: runs on the CPU"));
  for (const auto& row : result.throughput) CHECK_FALSE(row.median_ms);
}

constexpr const char* kTenSamples =
    R"({"seq_len": [8], "batch_size": 4, "num_samples": 10, "phases": ["fwd"]})";

// One row of ten samples on a GPU that gives these reasons in turn: before the first sample, then
// after each.
reports::ThroughputRow Throttled(const std::function<std::uint64_t(int reading)>& reasons) {
  FakeGpu fake;
  int reading = 0;
  fake.throttle = [&] { return reasons(reading++); };
  const auto result = Run(TinyCell("gla", kTenSamples), {.gpu = fake.Monitor()});
  CHECK(result.state == reports::CellState::kCompleted);
  CHECK(WasThrottled(result) == (result.throughput.at(0).state != reports::CellState::kCompleted));
  const Value written = reports::CellToValue(result);
  CHECK(reports::CellToValue(reports::CellFromValue(written)) == written);
  return result.throughput.at(0);
}

TEST_CASE("throughput: what lowers clocks under any load is noted and costs no sample") {
  const auto row = Throttled([](int reading) { return reading < 2 ? kGpuIdle : 0x6ull; });
  CHECK(row.state == reports::CellState::kCompleted);
  CHECK(row.samples_ms.size() == 10);
  CHECK(row.throttled_samples_dropped == 0);
  CHECK(row.throttle == std::vector<std::string>{"applications_clocks_setting", "sw_power_cap"});
}

TEST_CASE("throughput: a sample that a slowdown touches is dropped and taken again") {
  // Hot after the third sample alone, so before the fourth: two are lost.
  const auto row = Throttled([](int reading) { return reading == 3 ? 0x20 : 0; });
  CHECK(row.state == reports::CellState::kCompleted);
  CHECK(row.samples_ms.size() == 10);
  CHECK(row.throttled_samples_dropped == 2);
  CHECK(row.throttle == std::vector<std::string>{"sw_thermal_slowdown"});
  CHECK(row.median_ms);
}

TEST_CASE(
    "throughput: with more than a fifth of the samples the row is lost, and not for the cell") {
  const auto row = Throttled([](int reading) { return reading >= 5 ? 0x88 : 0; });
  CHECK(row.state == reports::CellState::kSkipped);
  CHECK(row.reason ==
        "the GPU was slowed down in 3 of 7 samples (hw_slowdown, hw_power_brake_slowdown): see to "
        "its cooling and power, then run again");
  CHECK_FALSE(row.median_ms);
  CHECK(row.throttled_samples_dropped == 3);
}

TEST_CASE("throughput: where no reasons are to be read, none are noted") {
  const auto result = Run(TinyCell("gla", kTenSamples));
  CHECK_FALSE(result.throughput.at(0).throttle);
  CHECK(result.throughput.at(0).throttled_samples_dropped == 0);
  CHECK_FALSE(WasThrottled(result));
}

TEST_CASE("throughput: energy of samples that last longer than the steps of its counter") {
  const auto energy_of = [](std::chrono::milliseconds time_per_sample) {
    FakeGpu fake;
    fake.throttle = [=] {
      std::this_thread::sleep_for(time_per_sample);
      return 0;
    };
    double joules = 100;
    const RunControl control{.gpu = fake.Monitor(), .energy_j = [&] { return joules += 40; }};
    return Run(TinyCell("gla", kTenSamples), control).throughput.at(0).energy_j;
  };
  CHECK(energy_of(std::chrono::milliseconds(110)) == 40);
  CHECK_FALSE(energy_of(std::chrono::milliseconds(0)));
}

}  // namespace
}  // namespace mixerbench::harness
