// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/ttt/ttt.h"

#include <cmath>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "kernels/linear_attention/ttt/ttt_steps.h"
#include "tests/support/compare.h"
#include "tests/support/mini_batch_check.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::kernels {
namespace {

using testing::RandomNormal;
using testing::RandomUniform;
using testing::RelativeError;

constexpr double kFloat64Tolerance = 1e-10;
constexpr ExecutionPath kPaths[] = {ExecutionPath::kReference, ExecutionPath::kFast};

std::vector<at::Tensor> Draw(std::int64_t seq_len) {
  return {RandomNormal({2, seq_len, 2, 5}, 1),
          RandomNormal({2, seq_len, 2, 5}, 2),
          RandomNormal({2, seq_len, 2, 5}, 3),
          RandomUniform({2, seq_len, 2}, 4) * 0.2,
          RandomUniform({4}, 5),
          RandomNormal({2, 5}, 6),
          RandomNormal({2, 5}, 7),
          RandomNormal({2, 2, 5, 5}, 8),
          RandomNormal({2, 2, 5}, 9)};
}

TttArgs ArgsOf(const std::vector<at::Tensor>& x, std::int64_t begin, std::int64_t end) {
  return {.q = x[0].slice(1, begin, end),
          .k = x[1].slice(1, begin, end),
          .v = x[2].slice(1, begin, end),
          .learning_rate = x[3].slice(1, begin, end),
          .token_scale = x[4],
          .norm_weight = x[5],
          .norm_bias = x[6],
          .initial_state = {.weight = x[7], .bias = x[8]}};
}

TEST_CASE("ttt: the gradient is that of the loss with its norm") {
  const auto z = RandomNormal({3, 6}, 1), target = RandomNormal({3, 6}, 2);
  const auto weight = RandomNormal({6}, 3), bias = RandomNormal({6}, 4);
  const auto leaf = z.clone().requires_grad_(true);
  const auto error = at::layer_norm(leaf, {6}, weight, bias, 1e-6) - target;
  (error * error / 2).sum().backward();
  const auto u = ttt::GradientOfLoss(z, target, weight, bias, 1e-6);
  CHECK(RelativeError(u.value, leaf.grad()) < kFloat64Tolerance);
}

TEST_CASE("ttt: pieces equal one call, with the gradient of every argument") {
  testing::CheckMiniBatchPieces(Draw, ArgsOf, Ttt, [](const TttState& state) {
    return std::vector<at::Tensor>{state.weight, state.bias, state.k, state.v, state.learning_rate};
  });
}

// Worked out in the page.
TEST_CASE("ttt: the token of ttt.md") {
  TttArgs args{
      .q = at::tensor({1., 2., 0.}, at::kDouble).view({1, 1, 1, 3}),
      .k = at::tensor({1., 0., 0.}, at::kDouble).view({1, 1, 1, 3}),
      .v = at::tensor({1., 1., 0.}, at::kDouble).view({1, 1, 1, 3}),
      .learning_rate = at::ones({1, 1, 1}, at::kDouble),
      .token_scale = at::ones({4}, at::kDouble),
      .norm_weight = at::ones({1, 3}, at::kDouble),
      .norm_bias = at::zeros({1, 3}, at::kDouble),
      .initial_state = {.weight = at::tensor({3., 0., -3., 0., 1., 0., 0., 0., 1.}, at::kDouble)
                                      .view({1, 1, 3, 3}),
                        .bias = at::zeros({1, 1, 3}, at::kDouble)},
      .norm_eps = 1e-12,
      .scale = 1};
  // z = (3, 0, -3), sigma = sqrt 6, normed (r, 0, -r) with r = sqrt 1.5, target (0, 1, 0); the
  // error (r, -1, -r) loses its mean -1/3 and its part along normed, all of (r, 0, -r): U = (1/3,
  // -2/3, 1/3) / sqrt 6. The bias adds as much again to what q_0 = 1 sees.
  const double u = 1 / (3 * std::sqrt(6.));
  const auto expected = at::tensor({3 - 2 * u, 2 + 4 * u, -3 - 2 * u}, at::kDouble);
  args.wants_loss = true;
  for (const auto path : kPaths) {
    const auto result = Ttt(args, path);
    CHECK(RelativeError(result.o.flatten(), expected) < kFloat64Tolerance);
    // (r, -1, -r)
    CHECK(RelativeError(result.loss.flatten(), at::tensor({2.}, at::kDouble)) < kFloat64Tolerance);
    CHECK(RelativeError(result.surprise.flatten(), at::tensor({u * std::sqrt(6.)}, at::kDouble)) <
          kFloat64Tolerance);
    CHECK(RelativeError(result.final_state.weight, args.initial_state.weight) == 0);
  }
}

// A constant row has the norm 1 / sqrt(eps): where nothing was learned yet, a mini-batch of zeros
// leaves the bias at zero and multiplies what is centred in its gradient by 1 - rate / eps
// (ttt.md).
TEST_CASE("ttt: mini-batches of zeros multiply gradients by one minus rate over eps") {
  constexpr double kRate = 0.1, kEps = 1e-2;  // -9
  for (const std::int64_t mini_batch : {1, 4}) {
    const std::int64_t num_batches = 3, channels = 5;
    const at::Tensor zeros = at::zeros({1, num_batches * mini_batch, 1, channels}, at::kDouble);
    const at::Tensor bias = at::zeros({1, 1, channels}, at::kDouble);
    const at::Tensor weight = RandomNormal({1, 1, channels}, 1);
    const auto mean = weight.mean(-1, /*keepdim=*/true);
    const double growth = std::pow(1 - kRate / kEps, num_batches);
    for (const auto path : kPaths) {
      CAPTURE(mini_batch, path == ExecutionPath::kFast);
      const at::Tensor leaf = bias.clone().requires_grad_(true);
      const auto result = Ttt(
          {.q = zeros,
           .k = zeros,
           .v = zeros,
           .learning_rate = at::full({1, zeros.size(1), 1}, kRate, at::kDouble),
           .token_scale = at::arange(1, mini_batch + 1, at::kDouble).reciprocal(),
           .norm_weight = at::ones({1, channels}, at::kDouble),
           .norm_bias = at::zeros({1, channels}, at::kDouble),
           .initial_state = {.weight = RandomNormal({1, 1, channels, channels}, 2), .bias = leaf},
           .norm_eps = kEps,
           .scale = 1},
          path);
      (result.final_state.bias * weight).sum().backward();
      CHECK(result.final_state.bias.count_nonzero().item<std::int64_t>() == 0);
      CHECK(RelativeError(leaf.grad(), (weight - mean) * growth + mean) < kFloat64Tolerance);
    }
  }
}

TEST_CASE("ttt: arguments that do not fit are refused by name") {
  TttArgs args = ArgsOf(Draw(3), 0, 3);
  args.initial_state.k = args.initial_state.v = RandomNormal({2, 4, 2, 5}, 1);
  args.initial_state.learning_rate = RandomNormal({2, 4, 2}, 1);
  CHECK_THROWS_WITH(Ttt(args, ExecutionPath::kFast),
                    Catch::Contains("fewer tokens than a mini-batch"));
  args = ArgsOf(Draw(3), 0, 3);
  args.v = RandomNormal({2, 3, 2, 4}, 1);
  CHECK_THROWS_WITH(Ttt(args, ExecutionPath::kReference),
                    Catch::Contains("v must have shape [2, 3, 2, 5]"));
}

}  // namespace
}  // namespace mixerbench::kernels
