// What only a GPU can show: the CPU and the GPU agree, and the GPU agrees with itself. Without a
// GPU every case fails; nothing passes quietly.
// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <string>

#include <ATen/ATen.h>

#include "harness/batch.h"
#include "harness/device.h"
#include "harness/model.h"
#include "harness/registries.h"
#include "harness/suite.h"
#include "harness/train.h"
#include "reports/json.h"
#include "reports/result_json.h"
#include "tests/support/compare.h"

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

// Products of fp64 in another order.
constexpr double kFp64 = 1e-9;
// Gradients through a few hundred fp32 products and sums in another order.
constexpr double kFp32 = 2e-3;

const Registries& AllRegistries() {
  static const Registries registries;
  return registries;
}

at::Device Gpu() {
  SetNumerics(/*allow_tf32=*/false);
  return ParseDevice("cuda");
}

// Output, input gradient and parameter gradients of one mixer.
std::map<std::string, at::Tensor> RunMixer(const std::string& name, const Value& config,
                                           at::Device device, at::ScalarType dtype) {
  const at::ScalarType parameter_dtype = dtype == at::kBFloat16 ? at::kFloat : dtype;
  const auto& entry = AllRegistries().mixers.Find(name, "");
  models::ParameterSet parameters(3, models::InitPolicy::kDefault, 1, device, parameter_dtype);
  const auto mixer = entry.create(config, "",
                                  {.d_model = 16,
                                   .layer_index = 0,
                                   .num_layers = 1,
                                   .max_seq_len = 150,
                                   .registry = &AllRegistries().mixers},
                                  models::ParameterScope(parameters));
  at::Generator generator = MakeGenerator(at::kCPU, 5);
  const at::Tensor x =
      at::randn({2, 150, 16}, generator, at::kDouble).to(device, dtype).requires_grad_(true);
  const at::Tensor y = models::Forward(*mixer, {x}).y;
  y.backward(at::randn({2, 150, 16}, generator, at::kDouble).to(device, dtype));
  std::map<std::string, at::Tensor> results = {{"y", y.detach().cpu()}, {"grad.x", x.grad().cpu()}};
  for (const auto& parameter : parameters.parameters()) {
    if (parameter.tensor.grad().defined()) {
      results["grad." + parameter.name] = parameter.tensor.grad().cpu();
    }
  }
  return results;
}

void ForEveryMixer(const std::function<void(const std::string& name, const Value& config)>& check) {
  for (const auto& [name, entry] : AllRegistries().mixers.entries()) {
    check(name, Object{});
    for (const Value& config : entry.test_configs) check(name, config);
  }
}

TEST_CASE("gpu: every mixer agrees with the CPU in fp64 and fp32") {
  const at::Device gpu = Gpu();
  ForEveryMixer([&](const std::string& name, const Value& config) {
    for (const auto& [dtype, limit] :
         {std::pair{at::kDouble, kFp64}, std::pair{at::kFloat, kFp32}}) {
      const auto cpu = RunMixer(name, config, at::kCPU, dtype);
      for (const auto& [tensor, value] : RunMixer(name, config, gpu, dtype)) {
        INFO(name << " " << reports::DumpJson(config) << " " << tensor);
        CHECK(testing::RelativeError(value, cpu.at(tensor)) < limit);
      }
    }
  });
}

TEST_CASE("gpu: every mixer repeats itself bit by bit, in fp32 and bf16") {
  const at::Device gpu = Gpu();
  ForEveryMixer([&](const std::string& name, const Value& config) {
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      const auto first = RunMixer(name, config, gpu, dtype);
      for (const auto& [tensor, value] : RunMixer(name, config, gpu, dtype)) {
        INFO(name << " " << reports::DumpJson(config) << " " << tensor);
        CHECK(value.equal(first.at(tensor)));
      }
    }
  });
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
    CHECK(reports::DumpJson(reports::CellToValue(first)) ==
          reports::DumpJson(reports::CellToValue(run())));
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
  const auto too_large = run(suite("2000000"));
  INFO(too_large.reason);
  CHECK(too_large.state == reports::CellState::kOom);
  const auto fits = run(suite("4"));
  INFO(fits.reason);
  CHECK(fits.state == reports::CellState::kCompleted);
}

}  // namespace
}  // namespace mixerbench::harness
