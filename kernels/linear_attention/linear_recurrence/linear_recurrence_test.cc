// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/linear_recurrence/linear_recurrence.h"

#include <cmath>
#include <limits>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros_like.h>

#include "tests/support/compare.h"
#include "tests/support/gradient_check.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::kernels {
namespace {

using testing::Derivative;
using testing::RandomNormal;
using testing::RelativeError;

constexpr double kFloat64Tolerance = 1e-12;
constexpr double kFloat32Tolerance = 1e-5;
constexpr double kGradientTolerance = 1e-7;

constexpr ExecutionPath kPaths[] = {ExecutionPath::kReference, ExecutionPath::kFast};

at::Tensor Complex(const at::Tensor& pairs) { return at::view_as_complex(pairs.contiguous()); }
at::Tensor Pairs(const at::Tensor& x) { return x.is_complex() ? at::view_as_real(x) : x; }

struct Kind {
  bool complex_x;
  bool complex_decay;
  bool constant;
};

const std::vector<Kind> kKinds = {{false, false, false}, {false, false, true},
                                  {true, true, false},   {true, true, true},
                                  {false, true, true},   {true, false, false}};

// x, log decay and initial state as real tensors, complex ones in pairs.
std::vector<at::Tensor> DrawLeaves(const Kind& kind, std::int64_t seq_len) {
  constexpr std::int64_t kBatch = 2;
  constexpr std::int64_t kChannels = 3;
  const auto sizes = [](std::vector<std::int64_t> shape, bool is_complex) {
    if (is_complex) shape.push_back(2);
    return shape;
  };
  const auto decay_shape = kind.constant ? std::vector<std::int64_t>{kChannels}
                                         : std::vector<std::int64_t>{kBatch, seq_len, kChannels};
  return {RandomNormal(sizes({kBatch, seq_len, kChannels}, kind.complex_x), 1),
          RandomNormal(sizes(decay_shape, kind.complex_decay), 2),
          RandomNormal(sizes({kBatch, kChannels}, kind.complex_x || kind.complex_decay), 3)};
}

LinearRecurrenceArgs ArgsOf(const Kind& kind, const std::vector<at::Tensor>& leaves) {
  LinearRecurrenceArgs args;
  args.x = kind.complex_x ? Complex(leaves[0]) : leaves[0];
  if (kind.complex_decay) {
    const auto parts = leaves[1].unbind(-1);
    args.log_decay = at::complex(-parts[0].abs() * 0.1, parts[1]);
  } else {
    args.log_decay = -leaves[1].abs() * 0.1;
  }
  args.initial_state = kind.complex_x || kind.complex_decay ? Complex(leaves[2]) : leaves[2];
  return args;
}

testing::TensorFunction FunctionOf(const Kind& kind, ExecutionPath path) {
  return [kind, path](const std::vector<at::Tensor>& leaves) -> std::vector<at::Tensor> {
    const auto [h, final_state] = LinearRecurrence(ArgsOf(kind, leaves), path);
    return {Pairs(h), Pairs(final_state)};
  };
}

TEST_CASE("linear recurrence: the three tokens of linear_recurrence.md") {
  const double ln2 = std::log(2.0);
  const at::Tensor log_decay =
      Complex(at::tensor({-ln2, std::acos(0.0)}, at::kDouble).view({1, 2}));
  const at::Tensor x = at::tensor({1., 2., 4.}, at::kDouble).view({1, 3, 1});
  const at::Tensor expected =
      at::tensor({1., 0., 2., 0.5, 3.75, 1.}, at::kDouble).view({1, 3, 1, 2});
  for (const auto path : kPaths) {
    const auto [h, final_state] = LinearRecurrence({.x = x, .log_decay = log_decay}, path);
    CHECK(RelativeError(at::view_as_real(h), expected) < kFloat64Tolerance);
    CHECK(RelativeError(at::view_as_real(final_state), expected.select(1, 2)) < kFloat64Tolerance);
  }
}

TEST_CASE("linear recurrence: the scan equals the definition, gradients included") {
  for (const Kind& kind : kKinds) {
    for (const std::int64_t seq_len : {1, 2, 3, 7, 8, 64, 131}) {
      CAPTURE(kind.complex_x, kind.complex_decay, kind.constant, seq_len);
      const auto leaves = DrawLeaves(kind, seq_len);
      const auto run = [&](ExecutionPath path, at::ScalarType dtype) {
        std::vector<at::Tensor> typed;
        for (const at::Tensor& leaf : leaves) typed.push_back(testing::StridedCopy(leaf.to(dtype)));
        Derivative d = testing::Differentiate(FunctionOf(kind, path), typed);
        d.outputs.insert(d.outputs.end(), d.gradients.begin(), d.gradients.end());
        return d.outputs;
      };
      const auto expected = run(ExecutionPath::kReference, at::kDouble);
      const auto actual = run(ExecutionPath::kFast, at::kDouble);
      const auto rounded = run(ExecutionPath::kFast, at::kFloat);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        CAPTURE(i);
        CHECK(RelativeError(actual[i], expected[i]) < kFloat64Tolerance);
        CHECK(rounded[i].scalar_type() == at::kFloat);
        CHECK(RelativeError(rounded[i], expected[i]) < kFloat32Tolerance);
      }
    }
  }
}

TEST_CASE("linear recurrence: gradients agree with central differences") {
  for (const Kind& kind : kKinds) {
    for (const auto path : kPaths) {
      CAPTURE(kind.complex_x, kind.complex_decay, kind.constant);
      CHECK(testing::GradientCheckError(FunctionOf(kind, path), DrawLeaves(kind, 5)) <
            kGradientTolerance);
    }
  }
}

TEST_CASE("linear recurrence: without an initial state it is zero") {
  for (const Kind& kind : kKinds) {
    LinearRecurrenceArgs args = ArgsOf(kind, DrawLeaves(kind, 9));
    args.initial_state = at::zeros_like(args.initial_state);
    const at::Tensor h = LinearRecurrence(args, ExecutionPath::kFast).h;
    args.initial_state.reset();
    for (const auto path : kPaths) {
      CHECK(RelativeError(Pairs(LinearRecurrence(args, path).h), Pairs(h)) < kFloat64Tolerance);
    }
  }
}

TEST_CASE("linear recurrence: minus infinity forgets, angle or not, without a gradient") {
  const double minus_infinity = -std::numeric_limits<double>::infinity();
  for (const auto path : kPaths) {
    const at::Tensor x = RandomNormal({1, 9, 2}, 1);
    at::Tensor log_decay = at::full({1, 9, 2}, -0.1, at::kDouble);
    log_decay.select(1, 4).fill_(minus_infinity);
    const at::Tensor angle = RandomNormal({1, 9, 2}, 2);
    const at::Tensor leaf = at::complex(log_decay, angle).requires_grad_(true);
    const auto [h, final_state] = LinearRecurrence({.x = x, .log_decay = leaf}, path);
    CHECK(RelativeError(at::view_as_real(h.select(1, 4).detach()).select(-1, 0), x.select(1, 4)) <
          kFloat64Tolerance);
    at::view_as_real(h).sum().backward();
    CHECK(at::view_as_real(leaf.grad().select(1, 4)).count_nonzero().item<std::int64_t>() == 0);
    CHECK(!at::view_as_real(leaf.grad()).isnan().any().item<bool>());
  }
}

TEST_CASE("linear recurrence: log decays in float64 keep the phase of long inputs in float32") {
  constexpr std::int64_t kSeqLen = 4096;
  const at::Tensor log_decay =
      at::complex(at::full({1}, -1e-4, at::kDouble), at::full({1}, 3.0, at::kDouble));
  const at::Tensor x = RandomNormal({1, kSeqLen, 1}, 1);
  const at::NoGradGuard no_grad;
  const auto exact = LinearRecurrence({.x = x, .log_decay = log_decay}, ExecutionPath::kFast);
  const auto rounded =
      LinearRecurrence({.x = x.to(at::kFloat), .log_decay = log_decay}, ExecutionPath::kFast);
  CHECK(rounded.h.scalar_type() == at::kComplexFloat);
  CHECK(RelativeError(at::view_as_real(rounded.h), at::view_as_real(exact.h)) < 1e-6);
}

TEST_CASE("linear recurrence: wrong arguments are named") {
  const at::Tensor x = RandomNormal({1, 4, 2}, 1);
  const at::Tensor decay = -RandomNormal({2}, 2).abs();
  CHECK_THROWS_WITH(
      LinearRecurrence({.x = x, .log_decay = decay.narrow(0, 0, 1)}, ExecutionPath::kFast),
      Catch::Contains("log_decay must have shape [2]"));
  CHECK_THROWS_WITH(
      LinearRecurrence({.x = x, .log_decay = decay.to(at::kBFloat16)}, ExecutionPath::kFast),
      Catch::Contains("float32 or float64"));
  CHECK_THROWS_WITH(
      LinearRecurrence({.x = x, .log_decay = decay, .initial_state = x}, ExecutionPath::kReference),
      Catch::Contains("initial_state must have shape [1, 2]"));
}

}  // namespace
}  // namespace mixerbench::kernels
