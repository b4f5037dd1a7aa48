// Cores with device code against the reference recurrence in fp64, outputs and every gradient.
// Without a GPU every case fails. Prints the errors of each case: the parity table of a release.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/randn.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>

#include "harness/device.h"
#include "kernels/core.h"
#include "kernels/core_testing.h"
#include "tests/support/compare.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::kernels {
namespace {

using testing::BitwiseEqual;
using testing::Convert;
using testing::CoreCase;
using testing::DrawInputs;
using testing::RelativeError;
using testing::RunWithGradients;

// The cores of this test: those with a matrix state.
constexpr const char* kCores[] = {"scalar_decay", "vector_decay", "delta_rule"};

struct Precision {
  const char* name;
  at::ScalarType dtype;
  bool allow_tf32;
  double tolerance;
};
// fp32: sums of some thousand terms at 6e-8, and cumulative log decays up to 320 in a block at the
// same; the triangular inverse of the delta rule multiplies that. tf32 and bf16 round every operand
// of a product, to 5e-4 and 4e-3 at most: the errors of a sum's terms are independent, so its
// relative error is that of one term.
constexpr Precision kPrecisions[] = {{"fp32", at::kFloat, false, 1e-4},
                                     {"tf32", at::kFloat, true, 2e-3},
                                     {"bf16", at::kBFloat16, false, 1e-2}};

// The gradient of log decays is a running difference of q dq and k dk, formed from dq and dk as
// they are returned, in the precision of the operands: where the two cancel, their rounding is
// left.
constexpr double kLogDecayFactor = 6;

double Tolerance(const Precision& precision, const std::string& name) {
  const bool is_rounded = name == "d log_decay" && precision.tolerance > 1e-3;  // not fp32
  return precision.tolerance * (is_rounded ? kLogDecayFactor : 1);
}

const CoreEntry& Core(const std::string& name) {
  static const CoreRegistry cores = [] {
    CoreRegistry registry("core");
    RegisterCores(registry);
    return registry;
  }();
  return cores.Find(name, "");
}

at::Device Gpu(const Precision& precision) {
  harness::SetNumerics(precision.allow_tf32);
  return harness::ParseDevice("cuda");
}

NamedTensors On(at::Device device, const NamedTensors& tensors) {
  NamedTensors result;
  for (const auto& [name, tensor] : tensors) result[name] = tensor.to(device);
  return result;
}

// q, k and v in the dtype under test; gates and states stay in fp32.
NamedTensors InPrecision(const NamedTensors& inputs, const Precision& precision) {
  NamedTensors result = inputs;
  for (const char* name : {"q", "k", "v"}) result[name] = inputs.at(name).to(precision.dtype);
  if (result.count("beta") > 0) result["beta"] = inputs.at("beta").to(at::kFloat);
  return result;
}

// The errors of all outputs and gradients. The gradient of log decays is a difference of terms as
// large as dq, and as small as the decay itself: its error is measured against both.
std::vector<std::pair<std::string, double>> Errors(NamedTensors actual, NamedTensors expected) {
  if (expected.count("d log_decay") > 0) {
    const auto d_q = expected.at("d q").flatten();
    for (auto* result : {&actual, &expected}) {
      result->at("d log_decay") =
          at::cat({result->at("d log_decay").flatten().to(at::kDouble), d_q});
    }
  }
  std::vector<std::pair<std::string, double>> errors;
  for (const auto& [name, value] : expected) {
    errors.emplace_back(name, RelativeError(actual.at(name), value));
  }
  return errors;
}

void CheckCase(const std::string& core_name, const CoreCase& c) {
  const CoreEntry& core = Core(core_name);
  // Values that bf16 represents: the reference serves every precision.
  CoreCase rounded = c;
  rounded.dtype = at::kBFloat16;
  const auto inputs = On(Gpu(kPrecisions[0]), DrawInputs(core, rounded, /*seed=*/7));
  const auto expected =
      RunWithGradients(core, Convert(inputs, at::kDouble), {.path = ExecutionPath::kReference});
  for (const auto& precision : kPrecisions) {
    Gpu(precision);
    const auto actual = RunWithGradients(core, InPrecision(inputs, precision), {});
    std::printf("%s %s B%ld T%ld H%ld K%ld V%ld g%g%s:", core_name.c_str(), precision.name,
                c.batch_size, c.seq_len, c.num_heads, c.head_k_dim, c.head_v_dim, c.log_decays[0],
                c.log_decays.size() > 1 ? ".." : "");
    for (const auto& [name, error] : Errors(actual, expected)) {
      std::printf(" %s %.1e", name.c_str(), error);
      CAPTURE(core_name, precision.name, c.seq_len, c.head_k_dim, c.head_v_dim, c.log_decays[0]);
      CAPTURE(name);
      CHECK(error < Tolerance(precision, name));
    }
    std::printf("\n");
  }
}

TEST_CASE("core gpu: every length and decay, with states, against the reference in fp64") {
  for (const char* core : kCores) {
    for (const std::int64_t seq_len : {1, 17, 64, 65, 1000, 4096}) {
      for (const std::vector<double>& log_decays :
           {std::vector<double>{0}, {-0.01}, {-1}, {-20}, {0, -0.01, -1, -20}}) {
        CheckCase(core, {.batch_size = 1,
                         .seq_len = seq_len,
                         .head_k_dim = 64,
                         .head_v_dim = 64,
                         .log_decays = log_decays});
      }
    }
  }
}

TEST_CASE("core gpu: every head size, keys and values of different size") {
  for (const char* core : kCores) {
    for (const std::int64_t head_k_dim : {16, 32, 64, 128}) {
      for (const std::int64_t head_v_dim : {16, 32, 64, 128}) {
        CheckCase(core, {.seq_len = 81, .head_k_dim = head_k_dim, .head_v_dim = head_v_dim});
      }
    }
    CheckCase(core, {.seq_len = 70, .head_k_dim = 24, .head_v_dim = 104});
  }
}

TEST_CASE("core gpu: many sequences, walked whole, without optional inputs") {
  for (const char* core : kCores) {
    CheckCase(
        core,
        {.batch_size = 40, .seq_len = 333, .num_heads = 4, .head_k_dim = 32, .head_v_dim = 64});
  }
  CheckCase("scalar_decay", {.batch_size = 3,
                             .seq_len = 130,
                             .head_k_dim = 64,
                             .head_v_dim = 32,
                             .with_optional = false});
}

TEST_CASE("core gpu: the delta rule with equal keys and with negative eigenvalues") {
  const at::Device gpu = Gpu(kPrecisions[0]);
  const CoreEntry& core = Core("delta_rule");
  for (const bool equal_keys : {true, false}) {
    for (const double beta : {1.0, 2.0}) {
      auto inputs = On(gpu, DrawInputs(core,
                                       {.seq_len = 150,
                                        .head_k_dim = 32,
                                        .head_v_dim = 32,
                                        .dtype = at::kFloat,
                                        .log_decays = {0}},
                                       /*seed=*/31));
      inputs["beta"] = at::full_like(inputs.at("beta"), beta);
      if (equal_keys) inputs["k"] = at::full_like(inputs.at("k"), std::sqrt(1.0 / 32));
      const auto expected =
          RunWithGradients(core, Convert(inputs, at::kDouble), {.path = ExecutionPath::kReference});
      for (const auto& [name, error] : Errors(RunWithGradients(core, inputs, {}), expected)) {
        CAPTURE(equal_keys, beta, name);
        CHECK(error < kPrecisions[0].tolerance);
      }
    }
  }
}

// bf16 has 8 digits: probabilities and their gradients are rounded once before each product.
constexpr double kAttentionTolerance = 6e-3;

TEST_CASE("core gpu: softmax attention in bf16 against the reference in fp64, and bit by bit") {
  Gpu(kPrecisions[0]);
  const CoreEntry& core = Core("softmax_attention");
  for (const std::int64_t head_dim : {16, 32, 64, 128}) {
    for (const std::int64_t seq_len : {1, 17, 64, 65, 200, 256, 512}) {
      const auto inputs = On(at::kCUDA, DrawInputs(core,
                                                   {.seq_len = seq_len,
                                                    .num_heads = 3,
                                                    .head_k_dim = head_dim,
                                                    .head_v_dim = head_dim,
                                                    .dtype = at::kBFloat16,
                                                    .with_optional = false},
                                                   /*seed=*/41));
      auto expected =
          RunWithGradients(core, Convert(inputs, at::kDouble), {.path = ExecutionPath::kReference});
      auto actual = RunWithGradients(core, inputs, {});
      const auto again = RunWithGradients(core, inputs, {});
      if (seq_len == 1) {  // the gradients of q and k are zero but for rounding
        for (const char* name : {"d q", "d k"}) {
          expected.erase(name);
          actual.erase(name);
        }
      }
      for (const auto& [name, error] : Errors(actual, expected)) {
        CAPTURE(head_dim, seq_len, name);
        CHECK(error < kAttentionTolerance);
        CHECK(BitwiseEqual(actual.at(name).cpu(), again.at(name).cpu()));
      }
    }
  }
}

TEST_CASE("core gpu: attention over columns of one projection has gradients side by side") {
  Gpu(kPrecisions[0]);
  const CoreEntry& core = Core("softmax_attention");
  for (const std::int64_t seq_len : {100, 300}) {  // whole and tiled
    const auto packed = at::randn({3, seq_len, 3, 2, 64}, at::kCUDA).to(at::kBFloat16);
    const auto weight = at::randn({3, seq_len, 2, 64}, packed.options());
    const auto gradients = [&](bool in_columns) {
      std::vector<at::Tensor> leaves;
      for (const std::int64_t i : {0, 1, 2}) {
        const auto columns = packed.select(2, i);
        leaves.push_back((in_columns ? columns : columns.contiguous()).detach().requires_grad_());
      }
      const NamedTensors inputs = {{"q", leaves[0]}, {"k", leaves[1]}, {"v", leaves[2]}};
      return torch::autograd::grad({core.run(inputs, {}).at("o")}, leaves, {weight});
    };
    const auto expected = gradients(false);
    const auto actual = gradients(true);
    for (std::size_t i = 0; i < actual.size(); ++i) {
      CHECK(actual[i].storage().is_alias_of(actual[0].storage()));
      CHECK(actual[i].strides() == packed.select(2, 0).strides());
      CHECK(BitwiseEqual(actual[i].cpu(), expected[i].cpu()));
    }
  }
}

TEST_CASE("core gpu: two runs are bitwise equal, and garbage in fresh memory does not leak") {
  for (const char* core_name : kCores) {
    for (const auto& precision : kPrecisions) {
      const at::Device gpu = Gpu(precision);
      const CoreEntry& core = Core(core_name);
      // Value sizes: one that device code of this core has.
      const std::int64_t head_v_dim = core_name == std::string("delta_rule") ? 128 : 80;
      const auto inputs = InPrecision(
          On(gpu,
             DrawInputs(
                 core,
                 {.seq_len = 1100, .head_k_dim = 64, .head_v_dim = head_v_dim, .dtype = at::kFloat},
                 /*seed=*/13)),
          precision);
      const auto first = RunWithGradients(core, inputs, {});
      const testing::PoisonUninitializedMemory poison;
      for (const auto& [name, value] : RunWithGradients(core, inputs, {})) {
        CAPTURE(core_name, precision.name, name);
        CHECK(BitwiseEqual(value.cpu(), first.at(name).cpu()));
      }
    }
  }
}

TEST_CASE("core gpu: slices of one projection are read in place, other layouts are copied") {
  for (const char* core_name : kCores) {
    const at::Device gpu = Gpu(kPrecisions[0]);
    const CoreEntry& core = Core(core_name);
    auto inputs =
        On(gpu, DrawInputs(core,
                           {.seq_len = 99, .head_k_dim = 32, .head_v_dim = 32, .dtype = at::kFloat},
                           /*seed=*/17));
    const auto expected = core.run(inputs, {}).at("o");
    const auto packed = at::cat({inputs.at("q"), inputs.at("k"), inputs.at("v")}, -1);
    auto sliced = inputs;
    sliced["q"] = packed.narrow(-1, 0, 32);
    sliced["k"] = packed.narrow(-1, 32, 32);
    sliced["v"] = packed.narrow(-1, 64, 32);
    CHECK(BitwiseEqual(core.run(sliced, {}).at("o").cpu(), expected.cpu()));
    for (auto& [name, value] : sliced) value = testing::StridedCopy(value);
    CHECK(BitwiseEqual(core.run(sliced, {}).at("o").cpu(), expected.cpu()));
  }
}

TEST_CASE("core gpu: gradients of some inputs alone are those of all") {
  const at::Device gpu = Gpu(kPrecisions[0]);
  for (const char* core_name : kCores) {
    const CoreEntry& core = Core(core_name);
    const auto inputs =
        On(gpu, DrawInputs(core,
                           {.seq_len = 80, .head_k_dim = 32, .head_v_dim = 16, .dtype = at::kFloat},
                           /*seed=*/19));
    const auto weight = at::randn({2, 80, 2, 16}, inputs.at("v").options());
    const auto gradients = [&](const std::vector<std::string>& wanted) {
      NamedTensors leaves;
      for (const auto& [name, value] : inputs) leaves[name] = value.detach().clone();
      for (const auto& name : wanted) leaves.at(name).requires_grad_(true);
      core.run(leaves, {}).at("o").backward(weight);
      NamedTensors result;
      for (const auto& name : wanted) result[name] = leaves.at(name).grad();
      return result;
    };
    const auto all = gradients({"q", "k", "v", "log_decay", "initial_state"});
    for (const auto& [name, expected] : all) {
      CAPTURE(core_name, name);
      CHECK(BitwiseEqual(gradients({name}).at(name).cpu(), expected.cpu()));
    }
  }
}

TEST_CASE("core gpu: device code serves the sizes it has, the general path the others") {
  const at::Device gpu = Gpu(kPrecisions[0]);
  for (const char* core_name : kCores) {
    const auto node_of = [&](std::int64_t head_k_dim, at::ScalarType dtype) {
      auto inputs =
          On(gpu,
             DrawInputs(Core(core_name),
                        {.seq_len = 20, .head_k_dim = head_k_dim, .head_v_dim = 16, .dtype = dtype},
                        /*seed=*/23));
      for (auto& [name, value] : inputs) value.requires_grad_(true);
      return Core(core_name).run(inputs, {}).at("final_state").grad_fn()->name();
    };
    CHECK_THAT(node_of(32, at::kFloat), Catch::Contains("CppNode"));
    CHECK_THAT(node_of(32, at::kBFloat16), Catch::Contains("CppNode"));
    CHECK_THAT(node_of(32, at::kDouble), !Catch::Contains("CppNode"));
    CHECK_THAT(node_of(30, at::kFloat), !Catch::Contains("CppNode"));
    CHECK_THAT(node_of(132, at::kFloat), !Catch::Contains("CppNode"));
  }
}

TEST_CASE("core gpu: a second derivative is refused") {
  const at::Device gpu = Gpu(kPrecisions[0]);
  for (const char* core_name : kCores) {
    auto inputs =
        On(gpu, DrawInputs(Core(core_name),
                           {.seq_len = 20, .head_k_dim = 16, .head_v_dim = 16, .dtype = at::kFloat},
                           /*seed=*/29));
    for (auto& [name, value] : inputs) value.requires_grad_(true);
    const auto sum = Core(core_name).run(inputs, {}).at("o").sum();
    CHECK_THROWS_WITH(sum.backward({}, /*retain_graph=*/true, /*create_graph=*/true),
                      Catch::Contains("no second derivatives"));
  }
}

}  // namespace
}  // namespace mixerbench::kernels
