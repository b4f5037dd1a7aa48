// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/dplr/dplr.h"

#include <cstdint>
#include <limits>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "kernels/linear_attention/dplr/dplr_plan.h"
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

constexpr double kFloat64Tolerance = 1e-12;       // a few roundings at 1e-16
constexpr double kFloat32Tolerance = 1e-5;        // some hundred roundings at 6e-8
constexpr double kGradientCheckTolerance = 1e-7;  // of central differences with step 1e-6

// q, k, v, a, b, log_decay, initial_state
std::vector<at::Tensor> DrawInputs(std::int64_t seq_len, std::int64_t decay_width) {
  return {
      RandomNormal({2, seq_len, 2, 5}, 1),   RandomNormal({2, seq_len, 2, 5}, 2),
      RandomNormal({2, seq_len, 2, 3}, 3),   RandomUnitRows({2, seq_len, 2, 5}, 4),
      RandomUnitRows({2, seq_len, 2, 5}, 5), RandomUniform({2, seq_len, 2, decay_width}, 6) * -2,
      RandomNormal({2, 2, 5, 3}, 7)};
}

testing::TensorFunction Function(ExecutionPath path, std::int64_t chunk_size) {
  return [=](const std::vector<at::Tensor>& x) {
    const auto result = Dplr({.recurrence = {.q = x[0],
                                             .k = x[1],
                                             .v = x[2],
                                             .log_decay = x[5],
                                             .initial_state = x[6],
                                             .chunk_size = chunk_size},
                              .a = x[3],
                              .b = x[4]},
                             path);
    return std::vector<at::Tensor>{result.o, result.final_state};
  };
}

TEST_CASE("dplr: the three tokens of dplr.md") {
  const auto tokens = [](std::vector<double> values) {
    return at::tensor(values, at::kDouble).view({1, 3, 1, -1});
  };
  const DplrArgs args{.recurrence = {.q = tokens({1, 0, 1, 1, 0, 1}),
                                     .k = tokens({1, 0, 0, 1, 1, 1}),
                                     .v = tokens({2, 3, 4}),
                                     .log_decay = tokens({1, 1, 0.5, 1, 1, 0.25}).log(),
                                     .scale = 1},
                      .a = tokens({0, 0, 0, 1, 1, 0}),
                      .b = tokens({0, 0, 1, 0, 0.5, 0.5})};
  for (const auto path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    const auto [o, final_state] = Dplr(args, path);
    CHECK(RelativeError(o.flatten(), at::tensor({2., 2., 4.25}, at::kDouble)) < kFloat64Tolerance);
    CHECK(RelativeError(final_state.flatten(), at::tensor({4., 4.25}, at::kDouble)) <
          kFloat64Tolerance);
  }
}

TEST_CASE("dplr: one decay for all channels is that decay in each, with the sum of the gradients") {
  for (const std::int64_t seq_len : {1, 21}) {
    auto inputs = DrawInputs(seq_len, 1);
    const auto wide = [](ExecutionPath path) {
      return [path](std::vector<at::Tensor> x) {
        x[5] = x[5].expand_as(x[1]);
        return Function(path, 8)(x);
      };
    };
    const auto narrow = [](ExecutionPath path) {
      return [path](std::vector<at::Tensor> x) {
        x[5] = x[5].squeeze(-1);
        return Function(path, 8)(x);
      };
    };
    const auto expected = testing::Differentiate(wide(ExecutionPath::kReference), inputs);
    for (const auto path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
      CHECK(RelativeError(testing::Differentiate(narrow(path), inputs), expected) <
            kFloat64Tolerance);
      CHECK(RelativeError(testing::Differentiate(wide(path), inputs), expected) <
            kFloat64Tolerance);
    }
  }
}

TEST_CASE("dplr: channels that forget at once leave those that never forget exact") {
  auto inputs = DrawInputs(150, 5);
  inputs[5].fill_(0);
  inputs[5].slice(-1, 0, 2).fill_(-20);
  inputs[5].slice(-1, 2, 3).fill_(-std::numeric_limits<double>::infinity());
  std::vector<at::Tensor> floats;
  for (at::Tensor& x : inputs) {
    floats.push_back(x.to(at::kFloat));
    x = floats.back().to(at::kDouble);
  }
  CHECK(RelativeError(testing::Differentiate(Function(ExecutionPath::kFast, 64), floats),
                      testing::Differentiate(Function(ExecutionPath::kReference, 64), inputs)) <
        kFloat32Tolerance);
}

TEST_CASE("dplr: gradients of the chunk form agree with central differences") {
  for (const std::int64_t seq_len : {1, 7}) {
    CHECK(testing::GradientCheckError(Function(ExecutionPath::kFast, 4), DrawInputs(seq_len, 5)) <
          kGradientCheckTolerance);
  }
}

// Values of a loop over tokens in Python, of integers that both form.
TEST_CASE("dplr: the delta rule with a vector decay has the values of an independent loop") {
  const auto draw = [](std::int64_t size, std::int64_t factor) {
    std::vector<double> values;
    for (std::int64_t i = 0; i < size; ++i) {
      values.push_back(static_cast<double>((i * factor + 3) % 11) / 10 - 0.5);
    }
    return at::tensor(values, at::kDouble);
  };
  const RecurrenceArgs args{.q = draw(10, 7).view({1, 5, 1, 2}),
                            .k = draw(10, 4).view({1, 5, 1, 2}),
                            .v = draw(10, 5).view({1, 5, 1, 2}),
                            .log_decay = (draw(10, 8) - 0.5).view({1, 5, 1, 2}),
                            .beta = (draw(5, 6) + 0.5).view({1, 5, 1}),
                            .scale = 1};
  const auto expected_state = at::tensor(
      {-0.07291168448709975, 0.0055121348202711515, -0.11963786330038298, -0.015231606843631805},
      at::kDouble);
  const auto expected_last = at::tensor({0.06711010009890146, 0.007064589939788787}, at::kDouble);
  for (const auto path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    const auto result = Dplr(DeltaRuleAsDplr(args), path);
    CHECK(RelativeError(result.final_state.flatten(), expected_state) < kFloat64Tolerance);
    CHECK(RelativeError(result.o.select(1, 4).flatten(), expected_last) < kFloat64Tolerance);
  }
}

TEST_CASE("dplr: a missing or wrong low-rank factor is named") {
  const auto x = RandomNormal({1, 2, 1, 3}, 1);
  CHECK_THROWS_WITH(
      Dplr({.recurrence = {.q = x, .k = x, .v = x}, .a = x, .b = {}}, ExecutionPath::kFast),
      Catch::Contains("b must have shape"));
  CHECK_THROWS_WITH(Dplr({.recurrence = {.q = x, .k = x, .v = x}, .a = x.narrow(3, 0, 2), .b = x},
                         ExecutionPath::kReference),
                    Catch::Contains("a must have shape [1, 2, 1, 3]"));
  CHECK_THROWS_WITH(DeltaRuleAsDplr({.q = x, .k = x, .v = x}),
                    Catch::Contains("beta must have shape [1, 2, 1], got no tensor"));
}

TEST_CASE("dplr: the CTAs of the token scan have all columns of a head, and warps that are alike") {
  using dplr::ValueTiling;
  CHECK(dplr::PaddedKeys(1) == 32);
  CHECK(dplr::PaddedKeys(33) == 64);
  CHECK(dplr::PaddedKeys(65) == 128);
  // A warp has 32, 16 or 8 columns.
  CHECK(ValueTiling::Of(32, 32).num_warps == 1);
  CHECK(ValueTiling::Of(32, 33).num_warps == 2);
  CHECK(ValueTiling::Of(24, 129).num_blocks == 2);
  CHECK(ValueTiling::Of(24, 129).num_warps == 3);
  for (const std::int64_t head_k_dim : {1, 32, 64, 100}) {
    const std::int64_t width = dplr::kStatesPerWarp / dplr::PaddedKeys(head_k_dim);
    for (std::int64_t head_v_dim = 1; head_v_dim < 300; ++head_v_dim) {
      const ValueTiling tiling = ValueTiling::Of(head_k_dim, head_v_dim);
      const std::int64_t columns = tiling.num_blocks * tiling.num_warps * width;
      CHECK(tiling.num_warps <= dplr::kMaxWarps);
      CHECK(columns >= head_v_dim);
      CHECK(columns < head_v_dim + (tiling.num_blocks + 1) * width);
    }
  }
}

}  // namespace
}  // namespace mixerbench::kernels
