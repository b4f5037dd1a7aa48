// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/sila/sila.h"

#include <cmath>
#include <limits>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/full.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

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
constexpr double kFloat32Tolerance = 1e-5;
constexpr ExecutionPath kPaths[] = {ExecutionPath::kReference, ExecutionPath::kFast};

// Every argument, of two heads; memory weights [H,V], or [H,H,V] of all heads.
std::vector<at::Tensor> Draw(std::int64_t seq_len, bool cross_head) {
  const std::vector<std::int64_t> of_memory =
      cross_head ? std::vector<std::int64_t>{2, 2, 4} : std::vector<std::int64_t>{2, 4};
  return {RandomNormal({2, seq_len, 2, 5}, 1), RandomUnitRows({2, seq_len, 2, 5}, 2),
          RandomNormal({2, seq_len, 2, 4}, 3), RandomNormal({2, seq_len, 2}, 4),
          RandomNormal({2, seq_len, 2}, 5),    RandomNormal(of_memory, 6),
          RandomNormal(of_memory, 7),          RandomNormal({2, 2, 5, 4}, 8)};
}

SilaArgs ArgsOf(const std::vector<at::Tensor>& x) {
  return {.q = x[0],
          .k = x[1],
          .v = x[2],
          .write_logit = x[3],
          .forget_logit = x[4],
          .write_memory = x[5],
          .forget_memory = x[6],
          .initial_state = x[7]};
}

// w_beta = ln 3 and w_gamma = -ln 2: at p = 1 the gates are 3/4 and 4/5.
TEST_CASE("sila: the three tokens of sila.md") {
  const auto column = [](std::vector<double> x) {
    return at::tensor(x, at::kDouble).view({1, 3, 1, 1});
  };
  SilaArgs args{.q = column({1, 2, 1}),
                .k = column({1, 1, 0}),
                .v = column({2, 3, 5}),
                .write_logit = at::zeros({1, 3, 1}, at::kDouble),
                .forget_logit = at::zeros({1, 3, 1}, at::kDouble),
                .write_memory = at::full({1, 1}, std::log(3.), at::kDouble),
                .forget_memory = at::full({1, 1}, -std::log(2.), at::kDouble),
                .wants_gates = true,
                .scale = 1};
  for (const auto path : kPaths) {
    for (const bool decayed : {false, true}) {
      args.decayed_erase = decayed;
      const double last = decayed ? 2.45 : 2.3;
      const auto result = Sila(args, path);
      const auto close = [](const at::Tensor& x, std::vector<double> expected) {
        return RelativeError(x.flatten(), at::tensor(expected, at::kDouble)) < kFloat64Tolerance;
      };
      CHECK(close(result.o, {0, 2, last}));
      CHECK(close(result.final_state, {last}));
      CHECK(close(result.write_gate, {0.5, 0.75, 0.5}));
      CHECK(close(result.log_decay, {0, std::log(0.8), 0}));
      CHECK(close(result.recalled, {0, 1, 0}));
    }
  }
}

TEST_CASE("sila: fast equals reference with every option, outputs and gradients") {
  for (const bool cross_head : {false, true}) {
    for (const bool decayed : {false, true}) {
      for (const bool forced : {false, true}) {
        CAPTURE(cross_head, decayed, forced);
        const auto inputs = Draw(29, cross_head);
        at::Tensor gates;
        if (forced) {
          const auto drawn = RandomUniform({2, 29, 2}, 9);
          gates = at::where(drawn > 0.6, drawn, std::numeric_limits<double>::quiet_NaN());
        }
        const auto run = [&](ExecutionPath path) {
          return testing::Differentiate(
              [&](const std::vector<at::Tensor>& x) {
                SilaArgs args = ArgsOf(x);
                args.decayed_erase = decayed;
                args.forced_write_gate = gates;
                args.chunk_size = 8;
                const auto result = Sila(args, path);
                return std::vector<at::Tensor>{result.o, result.final_state};
              },
              inputs);
        };
        const auto actual = run(ExecutionPath::kFast);
        const auto expected = run(ExecutionPath::kReference);
        CHECK(RelativeError(actual, expected) < kFloat64Tolerance);
      }
    }
  }
}

// Without memory in the gates the step is the matrix gamma I - beta k k^T.
TEST_CASE("sila: gates without memory make a known linear recurrence") {
  const auto x = Draw(23, /*cross_head=*/false);
  SilaArgs args = ArgsOf(x);
  args.write_memory = args.forget_memory = at::Tensor();
  const auto beta = at::sigmoid(x[3]);
  const auto gamma = x[4].clamp_max(0).cosh().reciprocal();
  auto state = x[7];
  for (std::int64_t t = 0; t < 23; ++t) {
    const auto k = x[1].select(1, t).unsqueeze(-1);  // [B,H,K,1]
    const auto factor = [&](const at::Tensor& gate) {
      return gate.select(1, t).unsqueeze(-1).unsqueeze(-1);
    };
    const auto transition = factor(gamma) * at::eye(5, at::kDouble) - factor(beta) * k * k.mT();
    state = transition.matmul(state) + factor(beta) * k * x[2].select(1, t).unsqueeze(-2);
  }
  for (const auto path : kPaths) {
    CHECK(RelativeError(Sila(args, path).final_state, state) < kFloat64Tolerance);
  }
}

TEST_CASE("sila: open write gates and no decay recall values under orthonormal keys exactly") {
  const auto v = RandomNormal({1, 8, 1, 3}, 1);
  const auto result = Sila({.q = at::eye(8, at::kDouble).view({1, 8, 1, 8}),
                            .k = at::eye(8, at::kDouble).view({1, 8, 1, 8}),
                            .v = v,
                            .write_logit = at::full({1, 8, 1}, 50., at::kDouble),
                            .forget_logit = at::zeros({1, 8, 1}, at::kDouble),
                            .chunk_size = 3},
                           ExecutionPath::kFast);
  CHECK(result.o.count_nonzero().item<std::int64_t>() ==
        0);  // nothing is read before it is written
  CHECK(RelativeError(result.final_state.flatten(0, 2), v.flatten(0, 2)) < kFloat64Tolerance);
}

TEST_CASE("sila: chunks do not change results in fp32") {
  std::vector<at::Tensor> inputs;
  for (const auto& x : Draw(70, /*cross_head=*/false)) inputs.push_back(x.to(at::kFloat));
  SilaArgs args = ArgsOf(inputs);
  args.chunk_size = 70;
  const auto whole = Sila(args, ExecutionPath::kFast);
  for (const std::int64_t chunk_size : {1, 8, 16, 32}) {
    CAPTURE(chunk_size);
    args.chunk_size = chunk_size;
    const auto cut = Sila(args, ExecutionPath::kFast);
    CHECK(RelativeError(cut.o, whole.o) < kFloat32Tolerance);
    CHECK(RelativeError(cut.final_state, whole.final_state) < kFloat32Tolerance);
  }
}

TEST_CASE("sila: on both sides of zero the forget gate has the slope of its own branch") {
  for (const double logit : {-0.01, -1e-4, 1e-4, 0.01}) {
    CAPTURE(logit);
    auto inputs = Draw(4, /*cross_head=*/false);
    inputs[4] = at::full({2, 4, 2}, logit, at::kDouble);
    for (const std::size_t memory : {5, 6}) inputs[memory] = inputs[memory] * 1e-6;
    const auto error = testing::GradientCheckError(
        [](const std::vector<at::Tensor>& x) {
          const auto result = Sila(ArgsOf(x), ExecutionPath::kFast);
          return std::vector<at::Tensor>{result.o, result.final_state};
        },
        inputs);
    CHECK(error < 1e-5);  // a slope of 1e-4, of values with 1e-10 of noise
  }
}

TEST_CASE("sila: strong decays neither overflow nor divide by zero") {
  const auto x = Draw(67, /*cross_head=*/false);
  for (const double logit : {-20., -1000., 1000.}) {
    CAPTURE(logit);
    auto inputs = x;
    inputs[4] = at::where(RandomUniform({2, 67, 2}, 10) > 0.5, logit, x[4]);
    const auto run = [&](ExecutionPath path) {
      return testing::Differentiate(
          [&](const std::vector<at::Tensor>& leaves) {
            return std::vector<at::Tensor>{Sila(ArgsOf(leaves), path).o};
          },
          inputs);
    };
    const auto actual = run(ExecutionPath::kFast);
    const auto expected = run(ExecutionPath::kReference);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      CAPTURE(i);
      CHECK(RelativeError(actual.gradients[i], expected.gradients[i]) < kFloat64Tolerance);
    }
  }
}

TEST_CASE("sila: arguments that do not fit are refused by name") {
  auto x = Draw(3, /*cross_head=*/false);
  SilaArgs args = ArgsOf(x);
  args.forget_memory = at::Tensor();
  CHECK_THROWS_WITH(Sila(args, ExecutionPath::kFast), Catch::Contains("come together"));
  args = ArgsOf(x);
  args.write_logit = x[0];
  CHECK_THROWS_WITH(Sila(args, ExecutionPath::kFast),
                    Catch::Contains("write_logit must have shape [2, 3, 2]"));
}

}  // namespace
}  // namespace mixerbench::kernels
