// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/simple_gla/simple_gla.h"

#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/tensor.h>

#include "tests/support/compare.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::kernels {
namespace {

using testing::RandomNormal;
using testing::RelativeError;

constexpr double kFloat64Tolerance = 1e-12;  // a few roundings at 1e-16

TEST_CASE("simple gla: the three tokens of simple_gla.md") {
  const RecurrenceArgs args{
      .q = at::tensor({1., 0., 1., 1., 0., 1.}, at::kDouble).view({1, 3, 1, 2}),
      .k = at::tensor({1., 0., 0., 1., 1., 1.}, at::kDouble).view({1, 3, 1, 2}),
      .v = at::tensor({2., 3., 4.}, at::kDouble).view({1, 3, 1, 1}),
      .log_decay = at::tensor({1., 0.5, 0.5}, at::kDouble).log().view({1, 3, 1}),
      .scale = 1};
  for (const auto path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    const auto [o, final_state] = SimpleGla(args, path);
    CHECK(RelativeError(o.flatten(), at::tensor({2., 4., 5.5}, at::kDouble)) < kFloat64Tolerance);
    CHECK(RelativeError(final_state.flatten(), at::tensor({4.5, 5.5}, at::kDouble)) <
          kFloat64Tolerance);
  }
}

TEST_CASE("simple gla: a column of ones in v gives the normaliser of linear attention") {
  const auto q = RandomNormal({2, 37, 2, 5}, 1).abs();
  const auto k = RandomNormal({2, 37, 2, 5}, 2).abs();
  const auto v = RandomNormal({2, 37, 2, 3}, 3);
  const auto scores = at::einsum("bihk,bjhk->bhij", {q, k}).tril();
  const auto expected =
      at::einsum("bhij,bjhv->bihv", {scores / scores.sum(-1, /*keepdim=*/true), v});

  const auto ones = at::ones_like(v.narrow(-1, 0, 1));
  const auto o = SimpleGla({.q = q, .k = k, .v = at::cat({v, ones}, -1), .chunk_size = 16},
                           ExecutionPath::kFast)
                     .o;
  CHECK(RelativeError(o.narrow(-1, 0, 3) / o.narrow(-1, 3, 1), expected) < kFloat64Tolerance);
}

TEST_CASE("simple gla: arguments of other cores are refused") {
  const auto x = RandomNormal({1, 2, 1, 3}, 1);
  const auto gate = RandomNormal({1, 2, 1}, 2).abs().neg();
  CHECK_THROWS_WITH(SimpleGla({.q = x, .k = x, .v = x, .log_decay = x}, ExecutionPath::kFast),
                    Catch::Contains("log_decay must have shape [1, 2, 1]"));
  CHECK_THROWS_WITH(SimpleGla({.q = x, .k = x, .v = x, .beta = gate}, ExecutionPath::kFast),
                    Catch::Contains("no beta"));
  CHECK_THROWS_WITH(SimpleGla({.q = x, .k = x, .v = x, .log_decay = gate.to(at::kBFloat16)},
                              ExecutionPath::kReference),
                    Catch::Contains("float32 or float64"));
}

}  // namespace
}  // namespace mixerbench::kernels
