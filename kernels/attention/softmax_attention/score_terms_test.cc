// What changes the weights of softmax attention beside q.k: window, log decay, slopes, sinks.
// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <string>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "kernels/attention/softmax_attention/softmax_attention.h"
#include "tests/support/compare.h"
#include "tests/support/gradient_check.h"
#include "tests/support/peak_memory.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::kernels {
namespace {

using testing::BitwiseEqual;
using testing::RandomNormal;
using testing::RandomUniform;
using testing::RelativeError;

constexpr double kFloat64Tolerance = 1e-12;  // a few roundings at 1e-16
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Which terms a case has, and its sizes.
struct Terms {
  std::int64_t window = 0;
  bool log_decay = false;
  bool slopes = false;
  bool sinks = false;
  std::int64_t num_queries = 9;
  std::int64_t num_keys = 9;
  double dropout_p = 0;
};

// q, k, v, log_decay, sinks.
std::vector<at::Tensor> Draw(const Terms& terms) {
  return {RandomNormal({2, terms.num_queries, 6, 4}, 1), RandomNormal({2, terms.num_keys, 2, 4}, 2),
          RandomNormal({2, terms.num_keys, 2, 3}, 3), RandomUniform({2, terms.num_keys, 6}, 4) * -2,
          RandomNormal({6}, 5)};
}

SoftmaxAttentionArgs ArgsOf(const Terms& terms, const std::vector<at::Tensor>& x) {
  return {.q = x[0],
          .k = x[1],
          .v = x[2],
          .dropout_p = terms.dropout_p,
          .generator = at::detail::createCPUGenerator(5),
          .window = terms.window,
          .log_decay = terms.log_decay ? x[3] : at::Tensor(),
          .slopes = terms.slopes ? RandomUniform({6}, 6) : at::Tensor(),
          .sinks = terms.sinks ? x[4] : at::Tensor()};
}

testing::Derivative Differentiate(const Terms& terms, ExecutionPath path) {
  return testing::Differentiate(
      [&](const std::vector<at::Tensor>& x) {
        return std::vector<at::Tensor>{SoftmaxAttention(ArgsOf(terms, x), path)};
      },
      Draw(terms));
}

const std::vector<Terms>& Cases() {
  static const std::vector<Terms> cases = {
      {.window = 3},
      {.window = 1},
      {.log_decay = true},
      {.slopes = true},
      {.sinks = true},
      {.window = 4, .slopes = true, .sinks = true},
      {.window = 4, .log_decay = true, .slopes = true},
      {.window = 5, .log_decay = true, .num_queries = 4, .num_keys = 13},
      {.slopes = true, .sinks = true, .num_queries = 1, .num_keys = 13},
      {.window = 40, .log_decay = true, .num_queries = 300, .num_keys = 310},  // several tiles
      {.window = 4, .log_decay = true, .dropout_p = 0.25},
      {.sinks = true, .dropout_p = 0.25},
  };
  return cases;
}

TEST_CASE("score terms: fast equals reference, every gradient included") {
  for (const Terms& terms : Cases()) {
    CAPTURE(terms.window, terms.log_decay, terms.slopes, terms.sinks, terms.num_keys);
    const auto expected = Differentiate(terms, ExecutionPath::kReference);
    const auto actual = Differentiate(terms, ExecutionPath::kFast);
    CHECK(RelativeError(actual.outputs[0], expected.outputs[0]) < kFloat64Tolerance);
    for (std::size_t i = 0; i < expected.gradients.size(); ++i) {
      CAPTURE(i);
      // Zeros where a term is missing, and two sums of some hundred terms elsewhere.
      const double error = (actual.gradients[i] - expected.gradients[i]).norm().item<double>();
      CHECK(error <= 1e-11 * expected.gradients[i].norm().item<double>());
    }
  }
}

TEST_CASE("score terms: gradients of the reference agree with central differences") {
  for (const Terms& terms :
       {Terms{.window = 3, .log_decay = true, .slopes = true, .num_queries = 4, .num_keys = 5},
        Terms{.sinks = true, .num_queries = 4, .num_keys = 5}}) {
    const auto function = [&](const std::vector<at::Tensor>& x) {
      return std::vector<at::Tensor>{ReferenceSoftmaxAttention(ArgsOf(terms, x))};
    };
    CHECK(testing::GradientCheckError(function, Draw(terms)) < 1e-7);
  }
}

TEST_CASE("score terms: three tokens by hand") {
  const auto doubles = [](const std::vector<double>& x) { return at::tensor(x, at::kDouble); };
  // Equal scores q.k: the weights are those of the terms alone.
  const SoftmaxAttentionArgs plain{.q = at::zeros({1, 3, 1, 1}, at::kDouble),
                                   .k = at::ones({1, 3, 1, 1}, at::kDouble),
                                   .v = doubles({6, 3, 0}).view({1, 3, 1, 1})};
  auto decay = plain;  // weights 1; 1/2 : 1; 1/8 : 1/4 : 1
  decay.log_decay = doubles({1, 0.5, 0.25}).log().view({1, 3, 1});
  auto slopes = plain;  // weights 1; 1/2 : 1; 1/4 : 1/2 : 1
  slopes.slopes = doubles({2}).log();
  auto sinks = plain;  // weights of 1 beside 1: halves, thirds, quarters
  sinks.sinks = doubles({0});
  auto window = plain;  // two keys
  window.window = 2;
  for (const auto path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    const auto check = [&](const SoftmaxAttentionArgs& args, const std::vector<double>& o) {
      CHECK(RelativeError(SoftmaxAttention(args, path).flatten(), doubles(o)) < kFloat64Tolerance);
    };
    check(decay, {6, 4, 1.5 / 1.375});
    check(slopes, {6, 4, 3 / 1.75});
    check(sinks, {3, 3, 9. / 4});
    check(window, {6, 4.5, 1.5});
  }
}

TEST_CASE("score terms: a window of all keys, no decay and sinks far below are nothing") {
  const auto x = Draw({});
  const SoftmaxAttentionArgs plain{.q = x[0], .k = x[1], .v = x[2]};
  auto idle = plain;
  idle.window = 9;
  idle.log_decay = at::zeros({2, 9, 6}, at::kDouble);
  auto sunk = plain;
  sunk.sinks = at::full({6}, -1e3, at::kDouble);
  for (const auto path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    const auto o = SoftmaxAttention(plain, path);
    CHECK(RelativeError(SoftmaxAttention(idle, path), o) < kFloat64Tolerance);
    CHECK(RelativeError(SoftmaxAttention(sunk, path), o) < kFloat64Tolerance);
  }
}

TEST_CASE("score terms: scored queries are those of all queries, gradients included") {
  // Tokens 4 and 8 of sequence 0, token 5 of sequence 1 and one entry of padding, of 9 tokens each.
  const ScoredPositions rows{at::tensor({4, 8, 14, 0}, at::kLong), {}, 2};
  for (Terms terms : Cases()) {
    if (terms.num_queries != 9) continue;
    CAPTURE(terms.window, terms.log_decay, terms.slopes, terms.sinks, terms.dropout_p);
    const auto inputs = Draw(terms);
    const auto all = [&](const std::vector<at::Tensor>& x) {
      const auto o = ReferenceSoftmaxAttention(ArgsOf(terms, x));
      return std::vector<at::Tensor>{
          o.flatten(0, 1).index_select(0, rows.positions).narrow(0, 0, 3)};
    };
    const auto expected = testing::Differentiate(all, inputs);
    for (const auto path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
      const auto chosen = [&](const std::vector<at::Tensor>& x) {
        auto args = ArgsOf(terms, x);
        args.q = x[0].flatten(0, 1).index_select(0, rows.positions).view({2, 2, 6, 4});
        args.scored = &rows;
        return std::vector<at::Tensor>{SoftmaxAttention(args, path).flatten(0, 1).narrow(0, 0, 3)};
      };
      const auto actual = testing::Differentiate(chosen, inputs);
      CHECK(RelativeError(actual.outputs[0], expected.outputs[0]) < kFloat64Tolerance);
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        CAPTURE(i);
        const double error = (actual.gradients[i] - expected.gradients[i]).norm().item<double>();
        CHECK(error <= 1e-11 * expected.gradients[i].norm().item<double>());
      }
    }
  }
}

TEST_CASE("score terms: a reset hides all keys before it, costs no digits and has no gradient") {
  for (const double reset : {-kInfinity, -1e6, -1e300}) {
    CAPTURE(reset);
    auto x = Draw({.num_queries = 64, .num_keys = 64});
    x[3] = x[3].clone();
    for (const std::int64_t token : {0, 7, 8, 40}) x[3].select(1, token).fill_(reset);
    const auto run = [&](at::ScalarType dtype, ExecutionPath path) {
      std::vector<at::Tensor> inputs;
      for (const auto& tensor : x) inputs.push_back(tensor.to(dtype));
      return testing::Differentiate(
          [&](const std::vector<at::Tensor>& leaves) {
            return std::vector<at::Tensor>{
                SoftmaxAttention(ArgsOf({.log_decay = true}, leaves), path)};
          },
          inputs);
    };
    const auto expected = run(at::kDouble, ExecutionPath::kReference);
    const auto actual = run(at::kFloat, ExecutionPath::kFast);
    CHECK(RelativeError(actual.outputs[0], expected.outputs[0]) < 1e-6);
    for (std::size_t i = 0; i < 4; ++i) {
      CAPTURE(i);
      CHECK(RelativeError(actual.gradients[i], expected.gradients[i]) < 1e-5);
    }
    CHECK(actual.gradients[3].select(1, 8).count_nonzero().item<std::int64_t>() == 0);
  }
}

// The sums of log decays reach -2800 here: their differences in float32 alone would have three
// digits.
TEST_CASE("score terms: decays of a long sequence keep their digits in float32") {
  constexpr std::int64_t kNumKeys = 4096;
  const auto q = RandomNormal({1, 2, 1, 4}, 1);
  const auto k = RandomNormal({1, kNumKeys, 1, 4}, 2);
  const auto v = RandomNormal({1, kNumKeys, 1, 4}, 3);
  const auto log_decay = at::full({1, kNumKeys, 1}, -0.6931, at::kDouble);
  const auto run = [&](at::ScalarType dtype, ExecutionPath path) {
    return SoftmaxAttention({.q = q.to(dtype),
                             .k = k.to(dtype),
                             .v = v.to(dtype),
                             .log_decay = log_decay.to(at::kFloat).to(dtype)},
                            path);
  };
  CHECK(RelativeError(run(at::kFloat, ExecutionPath::kFast),
                      run(at::kDouble, ExecutionPath::kReference)) < 1e-6);
}

TEST_CASE("score terms: earlier outputs and other sequences know nothing of a NaN") {
  constexpr std::int64_t kToken = 5;
  for (const Terms& terms : Cases()) {
    if (terms.num_queries != 9) continue;
    const auto inputs = Draw(terms);
    for (const std::size_t poisoned : {1, 2, 3}) {
      if (poisoned == 3 && !terms.log_decay) continue;
      CAPTURE(terms.window, terms.log_decay, terms.slopes, terms.sinks, poisoned);
      auto changed = inputs;
      changed[poisoned] = inputs[poisoned].clone();
      changed[poisoned][1].select(0, kToken).fill_(std::numeric_limits<double>::quiet_NaN());
      for (const auto path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
        const auto before = SoftmaxAttention(ArgsOf(terms, inputs), path);
        const auto after = SoftmaxAttention(ArgsOf(terms, changed), path);
        CHECK(BitwiseEqual(after[0], before[0]));
        CHECK(BitwiseEqual(after[1].narrow(0, 0, kToken), before[1].narrow(0, 0, kToken)));
        if (terms.dropout_p == 0 && !(poisoned == 3 && terms.window == 1)) {
          CHECK(after[1][kToken].isnan().all().item<bool>());
        }
      }
    }
  }
}

TEST_CASE("score terms: training over a long sequence holds the scores of one tile") {
  constexpr std::int64_t kSeqLen = 8192;
  const auto draw = [](std::uint64_t seed) {
    return RandomNormal({1, kSeqLen, 1, 4}, seed, at::kFloat).requires_grad_(true);
  };
  const SoftmaxAttentionArgs args{.q = draw(1),
                                  .k = draw(2),
                                  .v = draw(3),
                                  .log_decay = at::full({1, kSeqLen, 1}, -0.01, at::kFloat)};
  const std::int64_t peak = testing::PeakTensorBytes(
      [&] { SoftmaxAttention(args, ExecutionPath::kFast).sum().backward(); });
  // Four tensors of a tile of 64 MiB; the weights of all queries alone would be 256 MiB.
  CHECK(peak < std::int64_t{300} << 20);
}

TEST_CASE("score terms: impossible ones are refused") {
  const auto x = Draw({});
  SoftmaxAttentionArgs args{.q = x[0], .k = x[1], .v = x[2]};
  args.log_decay = x[3].narrow(2, 0, 2);
  CHECK_THROWS_WITH(SoftmaxAttention(args, ExecutionPath::kFast),
                    Catch::Contains("log_decay must have shape [2, 9, 6]"));
  args.log_decay = x[3].to(at::kFloat);
  CHECK_THROWS_WITH(SoftmaxAttention(args, ExecutionPath::kFast),
                    Catch::Contains("log_decay is of dtype fp32, fp64 for fp64 inputs"));
  args.log_decay = x[3];
  args.sinks = x[4];
  CHECK_THROWS_WITH(SoftmaxAttention(args, ExecutionPath::kReference),
                    Catch::Contains("have no sink"));
}

}  // namespace
}  // namespace mixerbench::kernels
