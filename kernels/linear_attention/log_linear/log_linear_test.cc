// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/log_linear/log_linear.h"

#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>

#include "kernels/linear_attention/log_linear/levels.h"
#include "tests/support/compare.h"
#include "tests/support/gradient_check.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::kernels {
namespace {

using testing::RandomNormal;
using testing::RandomUniform;
using testing::RelativeError;

constexpr double kFloat64Tolerance = 1e-10;
constexpr ExecutionPath kPaths[] = {ExecutionPath::kReference, ExecutionPath::kFast};

TEST_CASE("log-linear: the four tokens of log_linear.md") {
  const auto ones = at::ones({1, 4, 1, 1}, at::kDouble);
  const LogLinearArgs args{
      .q = ones,
      .k = ones,
      .v = at::tensor({1., 2., 4., 8.}, at::kDouble).view({1, 4, 1, 1}),
      .level_weight = at::tensor({1., 10., 100.}, at::kDouble).expand({1, 4, 1, 3}),
      .log_decay = at::full({1, 4, 1}, 0.5, at::kDouble).log(),
      .chunk_size = 2};
  for (const auto path : kPaths) {
    const auto result = LogLinear(args, path);
    CHECK(RelativeError(result.o.flatten(), at::tensor({1., 7., 129., 90.5}, at::kDouble)) <
          kFloat64Tolerance);
    CHECK(RelativeError(result.final_state.flatten(), at::tensor({0., 0., 10.625}, at::kDouble)) <
          kFloat64Tolerance);
  }
}

// k = q = beta = 1: a token empties every level before it writes to its own.
TEST_CASE("log-linear: by the delta rule, a token erases its key from every level") {
  const auto ones = at::ones({1, 4, 1, 1}, at::kDouble);
  LogLinearArgs args{.q = ones,
                     .k = ones,
                     .v = at::tensor({1., 2., 4., 8.}, at::kDouble).view({1, 4, 1, 1}),
                     .level_weight = at::tensor({1., 10., 100.}, at::kDouble).expand({1, 4, 1, 3}),
                     .beta = ones.squeeze(-1),
                     .chunk_size = 2};
  for (const auto path : kPaths) {
    CHECK(RelativeError(LogLinear(args, path).o, args.v) < kFloat64Tolerance);
    // Half of each level stays, half of the value is written.
    LogLinearArgs half = args;
    half.beta = args.beta / 2;
    const auto result = LogLinear(half, path);
    CHECK(RelativeError(result.o.flatten(), at::tensor({0.5, 1 + 10 * 0.25, 2 + 100 * (0.5 + 0.125),
                                                        4 + 10 * 1. + 100 * (0.25 + 0.0625)},
                                                       at::kDouble)) < kFloat64Tolerance);
  }
}

TEST_CASE("log-linear: equal keys are solved accurately in float32") {
  const auto k = at::full({1, 256, 1, 4}, 0.5, at::kFloat);
  LogLinearArgs args{.q = RandomNormal({1, 256, 1, 4}, 1, at::kFloat),
                     .k = k,
                     .v = RandomNormal({1, 256, 1, 4}, 2, at::kFloat),
                     .level_weight = RandomUniform({1, 256, 1, 9}, 3, at::kFloat),
                     .beta = RandomUniform({1, 256, 1}, 4, at::kFloat)};
  CHECK(RelativeError(LogLinear(args, ExecutionPath::kFast).o,
                      LogLinear(args, ExecutionPath::kReference).o) < 1e-5);
}

TEST_CASE("log-linear: buckets are the digits of the position") {
  for (std::int64_t position = 0; position < 200; ++position) {
    std::int64_t end = position;
    for (const auto& bucket : log_linear::BucketsBefore(position)) {
      CHECK(bucket.begin + bucket.size == end);
      CHECK(bucket.size == std::int64_t{1} << (bucket.level - 1));
      end = bucket.begin;
    }
    CHECK(end == 0);
  }
}

// With a write strength, of the delta rule.
std::vector<at::Tensor> Draw(std::int64_t seq_len, bool erases = false) {
  std::vector<at::Tensor> inputs = {
      RandomNormal({2, seq_len, 2, 5}, 1), RandomNormal({2, seq_len, 2, 5}, 2) / 2,
      RandomNormal({2, seq_len, 2, 3}, 3), RandomNormal({2, seq_len, 2, 8}, 4),
      RandomUniform({2, seq_len, 2}, 5) * -0.5};
  if (erases) inputs.push_back(RandomUniform({2, seq_len, 2}, 6));
  return inputs;
}

LogLinearArgs ArgsOf(const std::vector<at::Tensor>& x, std::int64_t begin, std::int64_t end) {
  return {.q = x[0].slice(1, begin, end),
          .k = x[1].slice(1, begin, end),
          .v = x[2].slice(1, begin, end),
          .level_weight = x[3].slice(1, begin, end),
          .log_decay = x[4].slice(1, begin, end),
          .beta = x.size() > 5 ? x[5].slice(1, begin, end) : at::Tensor(),
          .position = begin,
          .chunk_size = 4};
}

// From one piece to the next by states; the last state counts too.
TEST_CASE("log-linear: pieces from any position equal one call, with every gradient") {
  const std::int64_t seq_len = 61;
  const bool erases = GENERATE(false, true);
  const auto inputs = Draw(seq_len, erases);
  const auto run = [&](const std::vector<std::int64_t>& cuts, ExecutionPath path) {
    return testing::Differentiate(
        [&](const std::vector<at::Tensor>& x) {
          std::vector<at::Tensor> o;
          at::Tensor state;
          for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
            LogLinearArgs args = ArgsOf(x, cuts[i], cuts[i + 1]);
            args.initial_state = state;
            const auto result = LogLinear(args, path);
            o.push_back(result.o);
            state = result.final_state;
          }
          return std::vector<at::Tensor>{at::cat(o, 1), state};
        },
        inputs);
  };
  const auto expected = run({0, seq_len}, ExecutionPath::kReference);
  const std::vector<std::vector<std::int64_t>> all_cuts = {
      {0, seq_len}, {0, 1, 2, 3, seq_len}, {0, 7, 39, seq_len}, {0, 32, 33, 60, seq_len}};
  for (const auto& cuts : all_cuts) {
    for (const auto path : kPaths) {
      CAPTURE(erases, cuts, path == ExecutionPath::kFast);
      const auto actual = run(cuts, path);
      CHECK(RelativeError(actual, expected) < kFloat64Tolerance);
    }
  }
}

TEST_CASE("log-linear: what has no level is not read from the initial state") {
  const auto inputs = Draw(5, GENERATE(false, true));
  LogLinearArgs args = ArgsOf(inputs, 0, 5);
  for (const auto path : kPaths) {
    args.initial_state = at::Tensor();
    const auto expected = LogLinear(args, path);
    args.initial_state = RandomNormal({2, 2, 8, 5, 3}, 9);
    CHECK(RelativeError(LogLinear(args, path).o, expected.o) == 0);
  }
}

TEST_CASE("log-linear: too many tokens for the levels are an error") {
  const auto x = RandomNormal({1, 5, 1, 3}, 1);
  LogLinearArgs args{.q = x, .k = x, .v = x, .level_weight = RandomNormal({1, 5, 1, 3}, 2)};
  for (const auto path : kPaths) {
    CHECK_THROWS_WITH(LogLinear(args, path), Catch::Contains("3 levels hold 4 tokens, not 5"));
  }
  args.level_weight = RandomNormal({1, 5, 1, 4}, 2);
  args.position = 4;
  CHECK_THROWS_WITH(LogLinear(args, ExecutionPath::kFast),
                    Catch::Contains("4 levels hold 8 tokens, not 9"));
}

}  // namespace
}  // namespace mixerbench::kernels
