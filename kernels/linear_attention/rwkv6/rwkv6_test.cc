// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/rwkv6/rwkv6.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "tests/support/compare.h"
#include "tests/support/gradient_check.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::kernels {
namespace {

using testing::RandomNormal;
using testing::RelativeError;

constexpr double kFloat64Tolerance = 1e-12;  // a few roundings at 1e-16
constexpr double kFloat32Tolerance = 1e-5;   // some hundred roundings at 6e-8

TEST_CASE("rwkv6: the three tokens of rwkv6.md") {
  const RecurrenceArgs args{
      .q = at::tensor({1., 0., 1., 1., 0., 1.}, at::kDouble).view({1, 3, 1, 2}),
      .k = at::tensor({1., 0., 0., 1., 1., 1.}, at::kDouble).view({1, 3, 1, 2}),
      .v = at::tensor({2., 3., 4.}, at::kDouble).view({1, 3, 1, 1}),
      .log_decay = at::tensor({1., 1., 0.5, 1., 1., 0.25}, at::kDouble).log().view({1, 3, 1, 2}),
      .scale = 1};
  const auto bonus = at::tensor({0.5, 2.}, at::kDouble).view({1, 2});
  for (const auto path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    const auto [o, final_state] = Rwkv6(args, bonus, path);
    CHECK(RelativeError(o.flatten(), at::tensor({1., 8., 11.}, at::kDouble)) < kFloat64Tolerance);
    CHECK(RelativeError(final_state.flatten(), at::tensor({5., 4.75}, at::kDouble)) <
          kFloat64Tolerance);
  }
}

TEST_CASE("rwkv6: without a bonus a query reads what the token before left") {
  const auto q = RandomNormal({2, 9, 2, 3}, 1), k = RandomNormal({2, 9, 2, 3}, 2);
  const auto v = RandomNormal({2, 9, 2, 5}, 3), g = -RandomNormal({2, 9, 2, 3}, 4).abs();
  for (const auto path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    const auto o = Rwkv6({.q = q, .k = k, .v = v, .log_decay = g}, {}, path).o;
    CHECK(o.select(1, 0).count_nonzero().item<std::int64_t>() == 0);
    for (std::int64_t t = 1; t < 9; ++t) {
      const auto before = Rwkv6({.q = q.slice(1, 0, t),
                                 .k = k.slice(1, 0, t),
                                 .v = v.slice(1, 0, t),
                                 .log_decay = g.slice(1, 0, t)},
                                {}, path);
      const auto read = (q.select(1, t).unsqueeze(-1) * before.final_state).sum(2) / std::sqrt(3.);
      CHECK(RelativeError(o.select(1, t), read) < kFloat64Tolerance);
    }
  }
}

TEST_CASE("rwkv6: channels that forget at once leave those that never forget exact") {
  const auto q = RandomNormal({1, 150, 2, 6}, 1, at::kFloat);
  const auto k = RandomNormal({1, 150, 2, 6}, 2, at::kFloat);
  const auto v = RandomNormal({1, 150, 2, 4}, 3, at::kFloat);
  const auto bonus = RandomNormal({2, 6}, 5, at::kFloat);
  auto log_decay = at::zeros({1, 150, 2, 6}, at::kFloat);
  log_decay.slice(-1, 0, 3).fill_(-20);
  const auto function = [](ExecutionPath path) {
    return [path](const std::vector<at::Tensor>& x) {
      const auto result = Rwkv6({.q = x[0], .k = x[1], .v = x[2], .log_decay = x[3]}, x[4], path);
      return std::vector<at::Tensor>{result.o, result.final_state};
    };
  };
  const auto doubled = [](const at::Tensor& x) { return x.to(at::kDouble); };
  const auto actual =
      testing::Differentiate(function(ExecutionPath::kFast), {q, k, v, log_decay, bonus});
  const auto expected = testing::Differentiate(
      function(ExecutionPath::kReference),
      {doubled(q), doubled(k), doubled(v), doubled(log_decay), doubled(bonus)});
  CHECK(RelativeError(actual, expected) < kFloat32Tolerance);
}

TEST_CASE("rwkv6: a bonus of another shape is refused") {
  const auto x = RandomNormal({1, 2, 1, 3}, 1);
  CHECK_THROWS_WITH(Rwkv6({.q = x, .k = x, .v = x}, x, ExecutionPath::kFast),
                    Catch::Contains("bonus must have shape [1, 3]"));
}

}  // namespace
}  // namespace mixerbench::kernels
