// The reference against its formula, its gradients against central differences. That a GPU computes
// the same is shown by tests/gpu/operations_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>
#include <ATen/record_function.h>

#include "kernels/loss/cross_entropy.h"
#include "kernels/loss/linear_cross_entropy.h"
#include "kernels/loss/linear_cross_entropy_cuda.h"
#include "tests/support/compare.h"
#include "tests/support/gradient_check.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::kernels {
namespace {

using testing::GradientCheckError;
using testing::Longs;
using testing::RandomNormal;
using testing::RelativeError;

constexpr double kFloat64Tolerance = 1e-12;       // a few roundings at 1e-16
constexpr double kGradientCheckTolerance = 1e-7;  // docs/NUMERICS.md

TEST_CASE("cross-entropy: formula, ignored rows, ties and gradient") {
  const at::Tensor logits =
      at::tensor({1., 3., 3., 0., 0., 0., 5., 6., 7.}, at::kDouble).view({3, 3});
  const at::Tensor targets = Longs({2, -100, 0});
  const auto result = SoftmaxCrossEntropy(logits, targets);
  const double first = std::log(std::exp(-2.) + 2);
  const double last = 2 + std::log(1 + std::exp(-1.) + std::exp(-2.));
  CHECK(RelativeError(result.nll, at::tensor({first, 0., last}, at::kDouble)) < kFloat64Tolerance);
  CHECK(std::abs(result.loss.item<double>() - (first + last) / 2) < kFloat64Tolerance);
  CHECK(result.predicted.equal(Longs({1, 0, 2})));
  const auto loss = [&](const std::vector<at::Tensor>& x) -> std::vector<at::Tensor> {
    return {SoftmaxCrossEntropy(x[0], targets).loss};
  };
  CHECK(GradientCheckError(loss, {RandomNormal({3, 3}, 1)}) < kGradientCheckTolerance);
}

TEST_CASE("cross-entropy: large logits stay finite, in bf16 too") {
  const at::Tensor logits = at::tensor({1e4, -1e4, 0.}, at::kDouble).view({1, 3});
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat, at::kBFloat16}) {
    const auto result = SoftmaxCrossEntropy(logits.to(dtype), Longs({0}));
    CHECK(result.loss.item<double>() == 0);
    CHECK(result.loss.scalar_type() == (dtype == at::kDouble ? at::kDouble : at::kFloat));
  }
}

TEST_CASE(
    "linear cross-entropy: the loss of a linear layer, with and without bias, and gradients") {
  const std::vector<at::Tensor> inputs = {RandomNormal({4, 3}, 1), RandomNormal({5, 3}, 2),
                                          RandomNormal({5}, 3)};
  const at::Tensor targets = Longs({4, -1, 0, 4});
  const auto function = [&](const std::vector<at::Tensor>& x) -> std::vector<at::Tensor> {
    return {LinearCrossEntropy(x[0], x[1], x.size() > 2 ? x[2] : at::Tensor(), targets)};
  };
  const at::Tensor exponentials = (inputs[0].matmul(inputs[1].t()) + inputs[2]).exp();
  const at::Tensor softmax = exponentials / exponentials.sum(1, true);
  const at::Tensor wanted = -(softmax[0][4] * softmax[2][0] * softmax[3][4]).log() / 3;
  CHECK(RelativeError(function(inputs)[0], wanted) < kFloat64Tolerance);
  CHECK(GradientCheckError(function, inputs) < kGradientCheckTolerance);
  CHECK(GradientCheckError(function, {inputs[0], inputs[1]}) < kGradientCheckTolerance);
}

TEST_CASE("linear cross-entropy: weighted rows, over the number of rows that count") {
  const std::vector<at::Tensor> inputs = {RandomNormal({4, 3}, 1), RandomNormal({5, 3}, 2)};
  const at::Tensor targets = Longs({4, -1, 0, 4});
  const at::Tensor weights = at::tensor({2., 7., 0., 0.5}, at::kDouble);
  const auto function = [&](const std::vector<at::Tensor>& x) -> std::vector<at::Tensor> {
    return {LinearCrossEntropy(x[0], x[1], {}, targets, ExecutionPath::kFast, {}, weights)};
  };
  const at::Tensor exponentials = inputs[0].matmul(inputs[1].t()).exp();
  const at::Tensor softmax = exponentials / exponentials.sum(1, true);
  const at::Tensor wanted = -(softmax[0][4].log() * 2 + softmax[3][4].log() * 0.5) / 3;
  CHECK(RelativeError(function(inputs)[0], wanted) < kFloat64Tolerance);
  CHECK(GradientCheckError(function, inputs) < kGradientCheckTolerance);
}

// On a GPU ATen scatters in a fixed order with the help of a copy from the CPU, which waits.
TEST_CASE("linear cross-entropy: of weighted rows nothing is scattered") {
  static std::set<std::string> called;
  called.clear();
  const auto handle =
      at::addThreadLocalCallback(at::RecordFunctionCallback([](const at::RecordFunction& function) {
                                   called.insert(function.name());
                                   return std::unique_ptr<at::ObserverContext>();
                                 }).scopes({at::RecordScope::FUNCTION}));
  const at::Tensor hidden = RandomNormal({4, 3}, 1).requires_grad_(true);
  LinearCrossEntropy(hidden, RandomNormal({5, 3}, 2), {}, Longs({4, -1, 0, 4}),
                     ExecutionPath::kFast, {}, at::tensor({2., 7., 0., 0.5}, at::kDouble))
      .backward();
  at::removeCallback(handle);
  CHECK(called.contains("aten::log_softmax"));
  for (const std::string& name : called) {
    CAPTURE(name);
    CHECK(name.find("scatter") == std::string::npos);
  }
}

TEST_CASE("linear cross-entropy: which sizes have device functions, and how they are cut") {
  CHECK(LinearCrossEntropySupports({4096, 8192, 128}));
  CHECK(LinearCrossEntropySupports({1, 8191, 64}));
  CHECK_FALSE(LinearCrossEntropySupports({4096, 8192, 96}));
  CHECK_FALSE(LinearCrossEntropySupports({4096, 1000, 128}));
  CHECK_FALSE(LinearCrossEntropySupports({0, 8192, 128}));
  const auto cut = [](long long num_rows, int vocab_size) {
    const auto [padded_rows, num_parts] = CutLinearCrossEntropy({num_rows, vocab_size, 128});
    return std::vector<long long>{padded_rows, num_parts};
  };
  CHECK(cut(4096, 8192) == std::vector<long long>{4096, 4});
  CHECK(cut(2001, 8192) == std::vector<long long>{2048, 8});
  CHECK(cut(1, 300) == std::vector<long long>{128, 3});
  CHECK(cut(1 << 20, 8192) == std::vector<long long>{1 << 20, 1});
}

}  // namespace
}  // namespace mixerbench::kernels
