// Mesa with its systems solved by device code, against plain ATen in fp64: sizes of heads, lengths,
// decays, states, outputs and every gradient. What plain ATen in fp32 is off by is the measure.
// Without a GPU every case fails.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/where.h>

#include "harness/device/device.h"
#include "kernels/linear_attention/mesa/mesa.h"
#include "kernels/runtime/plain_aten.h"
#include "kernels/runtime/plan.h"
#include "tests/gpu/token_scan_check.h"
#include "tests/support/compare.h"
#include "tests/support/gradient_check.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::kernels {
namespace {

using testing::RandomNormal;
using testing::RandomUniform;
using testing::RandomUnitRows;
using testing::RelativeError;
using token_scan_check::Map;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Both are right to rounding where plain ATen happens to be off by less.
constexpr double kFloat32Rounding = 2e-6;

struct Case {
  std::int64_t batch_size = 2;
  std::int64_t seq_len = 65;
  std::int64_t num_heads = 2;
  std::int64_t head_k_dim = 64;
  std::int64_t head_v_dim = 32;
  std::int64_t num_iterations = 30;
  bool has_state = true;
  double extreme_log_decay = 0;  // of a fifth of the tokens; 0: none
  at::ScalarType dtype = at::kFloat;
};

// q, k, v, beta, ridge, log_decay, initial_gram, initial_state on the GPU.
std::vector<at::Tensor> DrawInputs(const Case& c) {
  const std::int64_t b = c.batch_size, t = c.seq_len, h = c.num_heads;
  const std::int64_t k = c.head_k_dim, v = c.head_v_dim;
  auto log_decay = RandomUniform({b, t, h}, 6) * -0.5;
  if (c.extreme_log_decay != 0) {
    log_decay = at::where(RandomUniform({b, t, h}, 7) < 0.2, c.extreme_log_decay, log_decay);
  }
  const auto root = RandomNormal({b, h, k, k}, 8) * 0.3;
  const std::vector<at::Tensor> inputs = {
      RandomNormal({b, t, h, k}, 1).to(c.dtype),
      RandomUnitRows({b, t, h, k}, 2).to(c.dtype),
      RandomNormal({b, t, h, v}, 3).to(c.dtype),
      RandomUniform({b, t, h}, 4).to(at::kFloat),
      (RandomUniform({h, k}, 5) + 0.5).to(at::kFloat),
      log_decay.to(at::kFloat),
      c.has_state ? at::matmul(root, root.mT()).to(at::kFloat) : at::Tensor(),
      c.has_state ? RandomNormal({b, h, k, v}, 9).to(at::kFloat) : at::Tensor()};
  const at::Device gpu = harness::ParseDevice("cuda");
  return Map(inputs, [&](const at::Tensor& x) { return x.to(gpu); });
}

// o, both final states, the gradients.
std::vector<at::Tensor> Results(const Case& c, const std::vector<at::Tensor>& inputs) {
  auto d = testing::Differentiate(
      [&](const std::vector<at::Tensor>& x) {
        const auto result = Mesa({.q = x[0],
                                  .k = x[1],
                                  .v = x[2],
                                  .beta = x[3],
                                  .ridge = x[4],
                                  .log_decay = x[5],
                                  .initial_gram = x[6],
                                  .initial_state = x[7],
                                  .num_iterations = c.num_iterations},
                                 ExecutionPath::kFast);
        return std::vector<at::Tensor>{result.o, result.final_gram, result.final_state};
      },
      inputs);
  d.outputs.insert(d.outputs.end(), d.gradients.begin(), d.gradients.end());
  return d.outputs;
}

std::vector<at::Tensor> PlainResults(const Case& c, const std::vector<at::Tensor>& inputs) {
  const PlainAten plain;
  return Results(c, inputs);
}

void CheckCase(const Case& c) {
  CAPTURE(c.batch_size, c.seq_len, c.num_heads, c.head_k_dim, c.head_v_dim, c.num_iterations);
  CAPTURE(c.has_state, c.extreme_log_decay, c.dtype);
  const auto inputs = DrawInputs(c);
  const auto expected =
      PlainResults(c, Map(inputs, [](const at::Tensor& x) { return x.to(at::kDouble); }));
  const auto plain = PlainResults(c, inputs);
  const PlanRecorder recorder;
  const auto actual = Results(c, inputs);
  REQUIRE(recorder.records().size() == 1);
  CHECK((recorder.records()[0] ==
         PlanRecord{"", "mesa", "conjugate_gradient", "conjugate_gradient", ""}));
  const testing::PoisonUninitializedMemory poison;
  const auto again = Results(c, inputs);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!expected[i].defined()) continue;
    CAPTURE(i);
    CHECK(RelativeError(actual[i], expected[i]) <=
          2 * RelativeError(plain[i], expected[i]) + kFloat32Rounding);
    CHECK(testing::BitwiseEqual(actual[i], again[i]));
  }
}

TEST_CASE("mesa gpu: heads of every size, whole solutions and few iterations") {
  harness::SetNumerics(/*allow_tf32=*/false);
  for (const std::int64_t head_k_dim : {1, 5, 16, 31, 32, 33, 48, 64}) {
    for (const std::int64_t num_iterations : {1, 3, 30}) {
      CheckCase({.head_k_dim = head_k_dim, .num_iterations = num_iterations});
    }
  }
  CheckCase({.head_k_dim = 64, .head_v_dim = 200});
}

TEST_CASE("mesa gpu: every length, with a state and without") {
  harness::SetNumerics(/*allow_tf32=*/false);
  for (const std::int64_t seq_len : {1, 2, 17, 63, 64, 65, 193, 257}) {
    for (const bool has_state : {false, true}) {
      CheckCase({.seq_len = seq_len, .head_k_dim = 24, .has_state = has_state});
    }
  }
}

TEST_CASE("mesa gpu: strong decays and resets") {
  harness::SetNumerics(/*allow_tf32=*/false);
  for (const double log_decay : {-20., -1e4, -kInfinity}) {
    CheckCase({.seq_len = 130, .head_k_dim = 32, .extreme_log_decay = log_decay});
  }
}

TEST_CASE("mesa gpu: tensors in bf16") {
  harness::SetNumerics(/*allow_tf32=*/false);
  CheckCase({.dtype = at::kBFloat16});
  CheckCase({.head_k_dim = 33, .head_v_dim = 31, .dtype = at::kBFloat16});
}

TEST_CASE("mesa gpu: more chunks than run at once") {
  harness::SetNumerics(/*allow_tf32=*/false);
  CheckCase({.batch_size = 400, .seq_len = 129, .num_heads = 4, .head_k_dim = 32});
}

TEST_CASE("mesa gpu: queries of zeros have answers of zeros") {
  harness::SetNumerics(/*allow_tf32=*/false);
  const Case c;
  auto inputs = DrawInputs(c);
  inputs[0].zero_();
  CHECK((Results(c, inputs)[0] == 0).all().item<bool>());
}

// For compute-sanitizer (docs/GPU.md).
TEST_CASE("mesa gpu: short sequences", "[sanitizer]") {
  harness::SetNumerics(/*allow_tf32=*/false);
  for (const std::int64_t head_k_dim : {24, 33, 64}) {
    CheckCase({.seq_len = 13, .head_k_dim = head_k_dim, .num_iterations = 4});
  }
}

TEST_CASE("mesa gpu: any layout of the inputs") {
  harness::SetNumerics(/*allow_tf32=*/false);
  const Case c{.head_k_dim = 40};
  const auto inputs = DrawInputs(c);
  const auto expected = Results(c, inputs);
  const auto actual = Results(c, Map(inputs, testing::StridedCopy));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(RelativeError(actual[i], expected[i]) < kFloat32Rounding);
  }
}

TEST_CASE("mesa gpu: what has no device code says so") {
  harness::SetNumerics(/*allow_tf32=*/false);
  const Case c{.seq_len = 5, .head_k_dim = 65};
  const PlanRecorder recorder;
  (void)Results(c, DrawInputs(c));
  REQUIRE(recorder.records().size() == 1);
  CHECK(recorder.records()[0].forward == "aten_chunk");
  CHECK(recorder.records()[0].backward == "aten_chunk");
  CHECK(!recorder.records()[0].reason.empty());
}

}  // namespace
}  // namespace mixerbench::kernels
