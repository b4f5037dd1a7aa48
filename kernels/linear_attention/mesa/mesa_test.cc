// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/mesa/mesa.h"

#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>

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

constexpr double kFloat64Tolerance = 1e-10;
constexpr ExecutionPath kPaths[] = {ExecutionPath::kReference, ExecutionPath::kFast};

std::vector<at::Tensor> Draw(std::int64_t seq_len) {
  return {RandomNormal({2, seq_len, 2, 5}, 1), RandomUnitRows({2, seq_len, 2, 5}, 2),
          RandomNormal({2, seq_len, 2, 3}, 3), RandomUniform({2, seq_len, 2}, 4),
          RandomUniform({2, 5}, 5) + 0.25,     RandomUniform({2, seq_len, 2}, 6) * -0.5};
}

MesaArgs ArgsOf(const std::vector<at::Tensor>& x, std::int64_t begin, std::int64_t end) {
  return {.q = x[0].slice(1, begin, end),
          .k = x[1].slice(1, begin, end),
          .v = x[2].slice(1, begin, end),
          .beta = x[3].slice(1, begin, end),
          .ridge = x[4],
          .log_decay = x[5].slice(1, begin, end),
          .chunk_size = 8};
}

TEST_CASE("mesa: the two tokens of mesa.md") {
  const auto column = [](std::vector<double> x) {
    return at::tensor(x, at::kDouble).view({1, 2, 1, 1});
  };
  const MesaArgs args{.q = column({1, 7}),
                      .k = column({1, 2}),
                      .v = column({2, 3}),
                      .beta = column({1, 0.5}).squeeze(-1),
                      .ridge = at::ones({1, 1}, at::kDouble),
                      .log_decay = column({1, 0.5}).log().squeeze(-1),
                      .num_iterations = 1};
  for (const auto path : kPaths) {
    const auto result = Mesa(args, path);
    CHECK(RelativeError(result.o.flatten(), at::tensor({1., 8.}, at::kDouble)) < kFloat64Tolerance);
    CHECK(RelativeError(result.final_gram.flatten(), at::tensor({2.5}, at::kDouble)) <
          kFloat64Tolerance);
    CHECK(RelativeError(result.final_state.flatten(), at::tensor({4.}, at::kDouble)) <
          kFloat64Tolerance);
  }
}

TEST_CASE("mesa: pieces equal one call, with every gradient, that of the ridge too") {
  const std::int64_t seq_len = 37;
  const auto inputs = Draw(seq_len);
  const auto run = [&](const std::vector<std::int64_t>& cuts, ExecutionPath path) {
    return testing::Differentiate(
        [&](const std::vector<at::Tensor>& x) {
          std::vector<at::Tensor> o;
          MesaResult result;
          for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
            MesaArgs args = ArgsOf(x, cuts[i], cuts[i + 1]);
            args.initial_gram = result.final_gram;
            args.initial_state = result.final_state;
            result = Mesa(args, path);
            o.push_back(result.o);
          }
          return std::vector<at::Tensor>{at::cat(o, 1), result.final_gram, result.final_state};
        },
        inputs);
  };
  const auto expected = run({0, seq_len}, ExecutionPath::kReference);
  const std::vector<std::vector<std::int64_t>> all_cuts = {{0, seq_len}, {0, 1, 20, seq_len}};
  for (const auto& cuts : all_cuts) {
    for (const auto path : kPaths) {
      CAPTURE(cuts, path == ExecutionPath::kFast);
      const auto actual = run(cuts, path);
      CHECK(RelativeError(actual, expected) < kFloat64Tolerance);
    }
  }
}

TEST_CASE("mesa: gradients agree with central differences") {
  const auto error = testing::GradientCheckError(
      [](const std::vector<at::Tensor>& x) {
        return std::vector<at::Tensor>{Mesa(ArgsOf(x, 0, 4), ExecutionPath::kFast).o};
      },
      Draw(4));
  CHECK(error < 1e-7);
}

TEST_CASE("mesa: few iterations stop where the reference stops, and the residual says how far") {
  MesaArgs args = ArgsOf(Draw(37), 0, 37);
  args.wants_residual = true;
  double before = 1;
  for (const std::int64_t num_iterations : {1, 2, 3, 6}) {
    args.num_iterations = num_iterations;
    const auto fast = Mesa(args, ExecutionPath::kFast);
    const auto reference = Mesa(args, ExecutionPath::kReference);
    CHECK(RelativeError(fast.o, reference.o) < kFloat64Tolerance);
    const double residual = fast.residual.mean().item<double>();
    CHECK(residual < before);
    CHECK((residual < 1e-10) == (num_iterations == 6));  // K is 5
    before = residual;
  }
}

// H + lambda I is lambda I then, and G is that of simple GLA with keys times beta.
TEST_CASE("mesa: a large ridge makes linear attention with a write strength") {
  const auto x = Draw(21);
  MesaArgs args = ArgsOf(x, 0, 21);
  constexpr double kRidge = 1e12;
  args.ridge = at::full({2, 5}, kRidge, at::kDouble);
  const auto c = x[5].cumsum(1).transpose(1, 2);  // [B,H,T]
  const auto decay = (c.unsqueeze(-1) - c.unsqueeze(-2)).exp().tril();
  const auto scores = at::einsum("bihk,bjhk,bjh->bhij", {x[0], x[1], x[3]}) * decay;
  const auto expected = at::einsum("bhij,bjhv->bihv", {scores, x[2]});
  args.scale = 1;
  for (const auto path : kPaths) {
    CHECK(RelativeError(Mesa(args, path).o * kRidge, expected) < kFloat64Tolerance);
  }
}

TEST_CASE("mesa: arguments that do not fit are refused by name") {
  MesaArgs args = ArgsOf(Draw(3), 0, 3);
  args.ridge = at::ones({2, 4}, at::kDouble);
  CHECK_THROWS_WITH(Mesa(args, ExecutionPath::kFast),
                    Catch::Contains("ridge must have shape [2, 5]"));
  args = ArgsOf(Draw(3), 0, 3);
  args.num_iterations = 0;
  CHECK_THROWS_WITH(Mesa(args, ExecutionPath::kReference), Catch::Contains("num_iterations"));
}

}  // namespace
}  // namespace mixerbench::kernels
