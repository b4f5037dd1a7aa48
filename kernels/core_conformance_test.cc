// What every core must satisfy, run on every entry of the registry.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/tensor.h>

#include "base/check.h"
#include "kernels/core.h"
#include "kernels/core_testing.h"
#include "kernels/named_tensors.h"
#include "kernels/runtime/plan.h"
#include "tests/support/compare.h"
#include "tests/support/gradient_check.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::kernels {
namespace {

using testing::BitwiseEqual;
using testing::Convert;
using testing::CoreCase;
using testing::DrawInputs;
using testing::RelativeError;
using testing::StridedCopy;

// Both paths round sums of some hundred terms at 1e-16; strong decays and the triangular system
// cost two or three digits of the gradients.
constexpr double kFloat64Tolerance = 1e-10;
// The same at 6e-8 a rounding.
constexpr double kFloat32Tolerance = 1e-5;
// Truncation and rounding of central differences with step 1e-6 are near 1e-10 per element.
constexpr double kGradientCheckTolerance = 1e-7;

constexpr std::int64_t kChunkSize = 16;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

const CoreRegistry& Cores() {
  static const CoreRegistry cores = [] {
    CoreRegistry registry("core");
    RegisterCores(registry);
    return registry;
  }();
  return cores;
}

NamedTensors Run(const CoreEntry& core, const NamedTensors& inputs, ExecutionPath path,
                 std::int64_t chunk_size = kChunkSize) {
  return core.run(inputs, {.path = path, .chunk_size = chunk_size});
}

NamedTensors RunWithGradients(const CoreEntry& core, const NamedTensors& inputs, ExecutionPath path,
                              std::int64_t chunk_size = kChunkSize) {
  return testing::RunWithGradients(core, inputs, {.path = path, .chunk_size = chunk_size});
}

void CheckClose(const NamedTensors& actual, const NamedTensors& expected, double tolerance) {
  REQUIRE(actual.size() == expected.size());
  for (const auto& [name, value] : expected) {
    CAPTURE(name);
    CHECK(RelativeError(actual.at(name), value) < tolerance);
  }
}

bool HasBatch(const TensorSpec& spec) { return spec.shape.starts_with("B"); }
bool HasTime(const TensorSpec& spec) { return spec.shape.starts_with("B T"); }

// The slice [begin, end) of every input with a time axis.
NamedTensors SliceTime(const CoreEntry& core, const NamedTensors& inputs, std::int64_t begin,
                       std::int64_t end) {
  NamedTensors result;
  for (const auto& spec : core.inputs) {
    const auto x = FindTensor(inputs, spec.name);
    if (x.defined() && HasTime(spec)) result[spec.name] = x.slice(1, begin, end);
  }
  return result;
}

// The inputs that all sequences share.
NamedTensors Parameters(const CoreEntry& core, const NamedTensors& inputs) {
  NamedTensors result;
  for (const auto& spec : core.inputs) {
    const auto x = FindTensor(inputs, spec.name);
    if (x.defined() && !HasBatch(spec)) result[spec.name] = x;
  }
  return result;
}

// Whether no state depends on this input: it reads, or is a gate of what was read.
bool OnlyReads(const std::string& input) {
  return input == "q" || input == "C" || input == "z" || input == "level_weight";
}

TEST_CASE("cores: the registry finds every folder") {
  CHECK(!Cores().entries().empty());
  for (const auto& [name, core] : Cores().entries()) {
    CHECK(!core.summary.empty());
    CHECK(!core.source.empty());
  }
}

TEST_CASE("cores: fast equals reference, outputs and every gradient, on strided inputs") {
  for (const auto& [name, core] : Cores().entries()) {
    for (const std::int64_t seq_len : {std::int64_t{1}, std::int64_t{2}, kChunkSize - 1, kChunkSize,
                                       kChunkSize + 1, 2 * kChunkSize + 3, std::int64_t{53}}) {
      for (const bool with_optional : {false, true}) {
        CAPTURE(name, seq_len, with_optional);
        const CoreCase c{.seq_len = seq_len, .with_optional = with_optional};
        auto inputs = DrawInputs(core, c, /*seed=*/7);
        for (auto& [input_name, value] : inputs) value = StridedCopy(value);
        const auto expected = RunWithGradients(core, inputs, ExecutionPath::kReference);
        CheckClose(RunWithGradients(core, inputs, ExecutionPath::kFast), expected,
                   kFloat64Tolerance);
        CheckClose(RunWithGradients(core, Convert(inputs, at::kFloat), ExecutionPath::kFast),
                   RunWithGradients(core, Convert(Convert(inputs, at::kFloat), at::kDouble),
                                    ExecutionPath::kReference),
                   kFloat32Tolerance);
      }
    }
  }
}

// The fast path forms the gradient of log decays from differences of terms as large as dq, the true
// one is as small as exp(log_decay): its error is measured against both.
void CompareLogDecaysWithQueries(NamedTensors& results, const NamedTensors& expected) {
  for (auto& [name, value] : results) {
    if (!name.starts_with("d log_") || expected.count("d q") == 0) continue;
    value = at::cat({value.flatten(), expected.at("d q").flatten()});
  }
}

TEST_CASE("cores: every single log decay is legal, alone and for long") {
  for (const auto& [name, core] : Cores().entries()) {
    for (const double log_decay :
         {0.0, -1e-4, -0.01, -1.0, -20.0, -100.0, -1e4, -1e300, -kInfinity}) {
      CAPTURE(name, log_decay);
      const auto inputs = DrawInputs(core, {.seq_len = 67, .log_decays = {log_decay}}, /*seed=*/11);
      auto actual = RunWithGradients(core, inputs, ExecutionPath::kFast, /*chunk_size=*/64);
      auto expected = RunWithGradients(core, inputs, ExecutionPath::kReference);
      CompareLogDecaysWithQueries(actual, expected);
      CompareLogDecaysWithQueries(expected, expected);
      CheckClose(actual, expected, kFloat64Tolerance);
    }
  }
}

TEST_CASE("cores: a reset in a chunk costs the decays after it no digits, and has no gradient") {
  for (const auto& [name, core] : Cores().entries()) {
    for (const double reset : {-1e4, -1e6, -kInfinity}) {
      CAPTURE(name, reset);
      const auto inputs = DrawInputs(
          core,
          {.seq_len = 64, .dtype = at::kFloat, .log_decays = {reset, -0.001, -0.01, -0.1, -1}},
          /*seed=*/12);
      const auto expected =
          RunWithGradients(core, Convert(inputs, at::kDouble), ExecutionPath::kReference);
      for (const auto path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
        const auto actual = RunWithGradients(core, inputs, path, /*chunk_size=*/64);
        CheckClose(actual, expected, kFloat32Tolerance);
        if (inputs.count("log_decay") == 0) continue;
        const auto gradient = actual.at("d log_decay");
        CHECK(gradient.masked_select(inputs.at("log_decay") == reset)
                  .count_nonzero()
                  .item<std::int64_t>() == 0);
      }
    }
  }
}

TEST_CASE("cores: in bf16 the fast path errs at most twice as much as the reference") {
  for (const auto& [name, core] : Cores().entries()) {
    const auto inputs = DrawInputs(
        core, {.seq_len = 37, .head_k_dim = 16, .head_v_dim = 16, .dtype = at::kBFloat16}, 13);
    const auto exact =
        RunWithGradients(core, Convert(inputs, at::kDouble), ExecutionPath::kReference);
    const auto reference = RunWithGradients(core, inputs, ExecutionPath::kReference);
    for (const auto& [output_name, value] : RunWithGradients(core, inputs, ExecutionPath::kFast)) {
      CAPTURE(name, output_name);
      CHECK(value.scalar_type() == reference.at(output_name).scalar_type());
      // Both compute in fp32, so the outputs that stay in fp32 differ by its roundings.
      CHECK(RelativeError(value, exact.at(output_name)) <=
            2 * RelativeError(reference.at(output_name), exact.at(output_name)) +
                kFloat32Tolerance);
    }
  }
}

TEST_CASE("cores: in bf16 gates and states have the dtype that the registry says") {
  for (const auto& [name, core] : Cores().entries()) {
    const auto inputs = DrawInputs(core, {.dtype = at::kBFloat16}, /*seed=*/14);
    const auto outputs = Run(core, inputs, ExecutionPath::kFast);
    for (const auto& [specs, tensors] :
         {std::pair(&core.inputs, &inputs), {&core.outputs, &outputs}}) {
      for (const auto& spec : *specs) {
        CAPTURE(name, spec.name);
        CHECK(tensors->at(spec.name).scalar_type() ==
              (spec.full_precision ? at::kFloat : at::kBFloat16));
      }
    }
  }
}

TEST_CASE("cores: chunk size does not change results") {
  for (const auto& [name, core] : Cores().entries()) {
    const auto inputs = DrawInputs(core, {.seq_len = 41}, /*seed=*/17);
    const auto expected = RunWithGradients(core, inputs, ExecutionPath::kReference);
    for (const std::int64_t chunk_size : {1, 2, 7, 12, 32, 41, 64}) {
      CAPTURE(name, chunk_size);
      CheckClose(RunWithGradients(core, inputs, ExecutionPath::kFast, chunk_size), expected,
                 kFloat64Tolerance);
    }
  }
}

TEST_CASE("cores: an output depends on its own and earlier tokens only, bit for bit") {
  const std::int64_t seq_len = 2 * kChunkSize + 3;
  for (const auto& [name, core] : Cores().entries()) {
    for (const auto path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
      const auto inputs = DrawInputs(core, {.seq_len = seq_len}, /*seed=*/19);
      const auto others = DrawInputs(core, {.seq_len = seq_len}, /*seed=*/23);
      const auto o = Run(core, inputs, path).at("o");
      for (const std::int64_t changed : {std::int64_t{1}, kChunkSize, kChunkSize + 5}) {
        CAPTURE(name, static_cast<int>(path), changed);
        auto mixed = inputs;
        for (auto& [input_name, value] : SliceTime(core, inputs, 0, changed)) {
          mixed[input_name] = at::cat({value, others.at(input_name).slice(1, changed)}, 1);
        }
        const auto mixed_o = Run(core, mixed, path).at("o");
        CHECK(BitwiseEqual(mixed_o.slice(1, 0, changed), o.slice(1, 0, changed)));
        CHECK(!BitwiseEqual(mixed_o, o));
      }
    }
  }
}

// Whether there are states that every token is written to: not caches, which grow.
bool HasStates(const CoreEntry& core, const NamedTensors& inputs, const NamedTensors& outputs) {
  return !core.state_pairs.empty() &&
         std::all_of(core.state_pairs.begin(), core.state_pairs.end(), [&](const auto& pair) {
           return outputs.at(pair.first).sizes() == inputs.at(pair.second).sizes();
         });
}

// Of several states, v may reach one and k another.
bool AnyStateIsNan(const CoreEntry& core, const NamedTensors& outputs, std::int64_t sequence) {
  return std::any_of(core.state_pairs.begin(), core.state_pairs.end(), [&](const auto& pair) {
    return outputs.at(pair.first)[sequence].isnan().all().template item<bool>();
  });
}

// A product with a mask of zeros would turn them into NaN.
TEST_CASE("cores: earlier outputs and other sequences know nothing of what is not finite") {
  const std::int64_t seq_len = 2 * kChunkSize + 3;
  for (const auto& [name, core] : Cores().entries()) {
    const auto inputs = DrawInputs(core, {.seq_len = seq_len}, /*seed=*/21);
    for (const auto path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
      const auto expected = Run(core, inputs, path);
      for (const auto& [input_name, value] : SliceTime(core, inputs, 0, seq_len)) {
        for (const double poison : {std::numeric_limits<double>::quiet_NaN(), kInfinity}) {
          for (const std::int64_t token : {std::int64_t{1}, kChunkSize, kChunkSize + 5}) {
            CAPTURE(name, path == ExecutionPath::kFast, input_name, poison, token);
            auto poisoned = inputs;
            poisoned[input_name] = value.clone();
            poisoned[input_name][1].select(0, token).fill_(poison);
            const auto actual = Run(core, poisoned, path);
            const auto o = actual.at("o");
            CHECK(o[0].equal(expected.at("o")[0]));
            CHECK(o[1].slice(0, 0, token).equal(expected.at("o")[1].slice(0, 0, token)));
            // A core that reads before it writes shows it at the next token.
            if (std::isnan(poison) && !o[1][token].equal(expected.at("o")[1][token])) {
              CHECK(o[1][token].isnan().all().item<bool>());
            }
            if (std::isnan(poison) && !OnlyReads(input_name)) {
              CHECK(o[1][token + 1].isnan().all().item<bool>());
              if (HasStates(core, inputs, actual)) CHECK(AnyStateIsNan(core, actual, 1));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("cores: a sequence may be cut anywhere and continued from the state") {
  for (const auto& [name, core] : Cores().entries()) {
    if (core.state_pairs.empty()) continue;  // its state has a position: its own test cuts it
    const CoreCase c;
    const auto inputs = DrawInputs(core, c, /*seed=*/29);
    const auto whole = Run(core, inputs, ExecutionPath::kReference);
    for (const auto path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
      for (const std::int64_t cut :
           {std::int64_t{1}, kChunkSize - 1, kChunkSize, std::int64_t{30}}) {
        CAPTURE(name, static_cast<int>(path), cut);
        auto first_inputs = SliceTime(core, inputs, 0, cut);
        auto second_inputs = SliceTime(core, inputs, cut, c.seq_len);
        for (auto* part : {&first_inputs, &second_inputs}) {
          part->merge(Parameters(core, inputs));
        }
        for (const auto& [final_name, initial_name] : core.state_pairs) {
          first_inputs[initial_name] = inputs.at(initial_name);
        }
        const auto first = Run(core, first_inputs, path);
        for (const auto& [final_name, initial_name] : core.state_pairs) {
          second_inputs[initial_name] = first.at(final_name);
        }
        auto joined = Run(core, second_inputs, path);
        joined["o"] = at::cat({first.at("o"), joined.at("o")}, 1);
        CheckClose(joined, whole, kFloat64Tolerance);
      }
    }
  }
}

TEST_CASE("cores: a row of a batch equals the row alone") {
  for (const auto& [name, core] : Cores().entries()) {
    const auto inputs = DrawInputs(core, {.batch_size = 3}, /*seed=*/31);
    const auto batch = Run(core, inputs, ExecutionPath::kFast);
    for (std::int64_t row = 0; row < 3; ++row) {
      CAPTURE(name, row);
      NamedTensors alone = Parameters(core, inputs);
      for (const auto& [input_name, value] : inputs) {
        if (!alone.contains(input_name)) alone[input_name] = value.narrow(0, row, 1);
      }
      NamedTensors expected;
      for (const auto& [output_name, value] : batch) {
        expected[output_name] = value.narrow(0, row, 1);
      }
      CheckClose(Run(core, alone, ExecutionPath::kFast), expected, kFloat64Tolerance);
    }
  }
}

TEST_CASE("cores: gradients of the reference agree with central differences") {
  for (const auto& [name, core] : Cores().entries()) {
    const CoreCase c{.batch_size = 1,
                     .seq_len = 4,
                     .head_k_dim = 3,
                     .head_v_dim = 2,
                     .log_decays = {-0.01, -0.3, -1}};
    const auto inputs = DrawInputs(core, c, /*seed=*/37);
    std::vector<std::string> names;
    std::vector<at::Tensor> values;
    for (const auto& [input_name, value] : inputs) {
      names.push_back(input_name);
      values.push_back(value);
    }
    const auto function = [&](const std::vector<at::Tensor>& leaves) {
      NamedTensors named;
      for (std::size_t i = 0; i < names.size(); ++i) named[names[i]] = leaves[i];
      const auto outputs = Run(core, named, ExecutionPath::kReference);
      std::vector<at::Tensor> ordered;
      for (const auto& spec : core.outputs) ordered.push_back(outputs.at(spec.name));
      return ordered;
    };
    CAPTURE(name);
    CHECK(testing::GradientCheckError(function, values) < kGradientCheckTolerance);
  }
}

TEST_CASE("cores: garbage in fresh memory does not leak, and two runs are bitwise equal") {
  for (const auto& [name, core] : Cores().entries()) {
    for (const bool with_optional : {false, true}) {
      const auto inputs =
          DrawInputs(core, {.dtype = at::kFloat, .with_optional = with_optional}, /*seed=*/41);
      const auto first = RunWithGradients(core, inputs, ExecutionPath::kFast);
      const testing::PoisonUninitializedMemory poison;
      for (const auto& [output_name, value] :
           RunWithGradients(core, inputs, ExecutionPath::kFast)) {
        CAPTURE(name, with_optional, output_name);
        CHECK(at::isfinite(value).all().item<bool>());
        CHECK(BitwiseEqual(value, first.at(output_name)));
      }
    }
  }
}

TEST_CASE("cores: a zero log decay equals none") {
  for (const auto& [name, core] : Cores().entries()) {
    auto inputs = DrawInputs(core, {.log_decays = {0}}, /*seed=*/43);
    const auto with_zeros = Run(core, inputs, ExecutionPath::kFast);
    if (inputs.erase("log_decay") == 0) continue;
    CAPTURE(name);
    CheckClose(Run(core, inputs, ExecutionPath::kFast), with_zeros, kFloat64Tolerance);
  }
}

TEST_CASE("cores: the scale multiplies the scores and defaults to K^-0.5") {
  for (const auto& [name, core] : Cores().entries()) {
    CAPTURE(name);
    const auto inputs = DrawInputs(core, {.head_k_dim = 4}, /*seed=*/47);
    if (inputs.count("q") == 0) continue;  // no scores
    const auto expected = core.run(inputs, {.path = ExecutionPath::kReference});
    CheckClose(core.run(inputs, {.path = ExecutionPath::kReference, .scale = 0.5}), expected,
               kFloat64Tolerance);
    auto doubled = inputs;
    doubled["q"] = inputs.at("q") * 2;
    CheckClose(core.run(doubled, {.path = ExecutionPath::kFast, .scale = 0.25}), expected,
               kFloat64Tolerance);
  }
}

TEST_CASE("cores: a wrong shape or dtype names the tensor") {
  for (const auto& [name, core] : Cores().entries()) {
    for (const auto path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
      CAPTURE(name, static_cast<int>(path));
      const auto inputs = DrawInputs(core, {}, /*seed=*/53);
      if (inputs.count("k") == 0) continue;  // its own test names them
      auto wrong = inputs;
      wrong["k"] = inputs.at("k").narrow(3, 0, 2);
      CHECK_THROWS_WITH(Run(core, wrong, path), Catch::Contains("k must have shape"));
      wrong["k"] = inputs.at("k").to(at::kFloat);
      CHECK_THROWS_WITH(Run(core, wrong, path), Catch::Contains("share one floating dtype"));
    }
  }
}

TEST_CASE("cores: each tells the plan that ran") {
  for (const auto& [name, core] : Cores().entries()) {
    CAPTURE(name);
    const NamedTensors inputs = DrawInputs(core, CoreCase{}, 1);
    for (const ExecutionPath path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
      const bool is_reference = path == ExecutionPath::kReference;
      const PlanRecorder recorder;
      Run(core, inputs, path);
      RunWithGradients(core, inputs, path);
      REQUIRE(recorder.records().size() == 2);
      const PlanRecord &forward = recorder.records()[0], &both = recorder.records()[1];
      const bool is_made_of_gla = name == "rwkv6" && !is_reference;
      CHECK(forward.function == (is_made_of_gla ? "gla" : name));
      CHECK((forward.forward == "reference") == is_reference);
      CHECK(forward.backward.empty());
      CHECK(forward.reason == (is_reference ? kReferenceAsked : kOnCpu));
      CHECK(both.forward == forward.forward);
      CHECK(both.backward == forward.forward);
    }
  }
}

}  // namespace
}  // namespace mixerbench::kernels
