// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/titans/titans.h"

#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>

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

at::Tensor Column(std::vector<double> x) { return at::tensor(x, at::kDouble).view({1, 3, 1, 1}); }

TEST_CASE("titans: the three tokens of titans.md") {
  const TitansArgs args{.q = Column({1, 1, 2}),
                        .k = Column({1, 1, 2}),
                        .v = Column({2, 4, 4}),
                        .step = Column({0.25, 0.25, 0.125}).squeeze(-1),
                        .log_decay = Column({1, 0.5, 0.5}).log().squeeze(-1),
                        .log_momentum = Column({0.5, 0.5, 0.5}).log().squeeze(-1),
                        .mini_batch_size = 2,
                        .scale = 1};
  for (const auto path : kPaths) {
    const auto result = Titans(args, path);
    const auto close = [](const at::Tensor& x, std::vector<double> expected) {
      return RelativeError(x.flatten(), at::tensor(expected, at::kDouble)) < kFloat64Tolerance;
    };
    CHECK(close(result.o, {1, 3, 3.5}));
    CHECK(close(result.surprise, {2, 4, 2}));
    CHECK(close(result.final_state.memory, {3}));
    CHECK(close(result.final_state.momentum, {2.5}));
    CHECK(close(result.final_state.k, {2}));
    CHECK(close(result.final_state.step, {0.125}));
  }
}

std::vector<at::Tensor> Draw(std::int64_t seq_len) {
  const auto k = RandomNormal({2, seq_len, 2, 5}, 2);
  return {RandomNormal({2, seq_len, 2, 5}, 1),    k / k.norm(2, -1, /*keepdim=*/true),
          RandomNormal({2, seq_len, 2, 3}, 3),    RandomUniform({2, seq_len, 2}, 4),
          RandomUniform({2, seq_len, 2}, 5) * -1, RandomUniform({2, seq_len, 2}, 6) * -2,
          RandomNormal({2, 2, 5, 3}, 7),          RandomNormal({2, 2, 5, 3}, 8)};
}

TitansArgs ArgsOf(const std::vector<at::Tensor>& x, std::int64_t begin, std::int64_t end) {
  return {.q = x[0].slice(1, begin, end),
          .k = x[1].slice(1, begin, end),
          .v = x[2].slice(1, begin, end),
          .step = x[3].slice(1, begin, end),
          .log_decay = x[4].slice(1, begin, end),
          .log_momentum = x[5].slice(1, begin, end),
          .initial_state = {.memory = x[6], .momentum = x[7]},
          .mini_batch_size = 4};
}

TEST_CASE("titans: pieces equal one call, with the gradient of every argument") {
  testing::CheckMiniBatchPieces(Draw, ArgsOf, Titans, [](const TitansState& state) {
    return std::vector<at::Tensor>{state.memory, state.momentum, state.k, state.v,
                                   state.log_momentum};
  });
}

TEST_CASE("titans: a chunk of another size is another model") {
  const auto inputs = Draw(12);
  TitansArgs args = ArgsOf(inputs, 0, 12);
  const auto o = Titans(args, ExecutionPath::kFast).o;
  args.mini_batch_size = 3;
  const auto other = Titans(args, ExecutionPath::kFast).o;
  CHECK(RelativeError(other.slice(1, 0, 3), o.slice(1, 0, 3)) < kFloat64Tolerance);
  CHECK(RelativeError(other.slice(1, 3), o.slice(1, 3)) > 1e-3);
}

TEST_CASE("titans: arguments that do not fit are refused by name") {
  TitansArgs args = ArgsOf(Draw(3), 0, 3);
  args.initial_state.momentum = at::Tensor();
  CHECK_THROWS_WITH(Titans(args, ExecutionPath::kFast), Catch::Contains("come together"));
  args = ArgsOf(Draw(3), 0, 3);
  args.mini_batch_size = 0;
  CHECK_THROWS_WITH(Titans(args, ExecutionPath::kReference), Catch::Contains("mini_batch_size"));
}

}  // namespace
}  // namespace mixerbench::kernels
