// The backward pass of the head as the first backward pass of a process: the thread that runs it
// has done nothing with the device before. A program of its own, or others would come first.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>

#include "kernels/loss/linear_cross_entropy.h"
#include "tests/support/compare.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::kernels {
namespace {

// Operands of products in bf16.
constexpr double kTolerance = 1e-2;

TEST_CASE("gpu: the head's backward pass may be the first of a process") {
  const at::Tensor weight = testing::RandomNormal({5000, 64}, 1, at::kFloat) * 0.2;
  const at::Tensor hidden = testing::RandomNormal({200, 64}, 2).to(at::kBFloat16);
  const at::Tensor targets = at::arange(200, at::kLong);
  const at::Tensor hidden_leaf = hidden.cuda().requires_grad_(true);
  LinearCrossEntropy(hidden_leaf, weight.cuda().requires_grad_(true), {}, targets.cuda())
      .backward();
  const at::Tensor expected = hidden.to(at::kDouble).requires_grad_(true);
  LinearCrossEntropy(expected, weight.to(at::kDouble), {}, targets, ExecutionPath::kReference)
      .backward();
  CHECK(testing::RelativeError(hidden_leaf.grad().cpu(), expected.grad()) < kTolerance);
}

}  // namespace
}  // namespace mixerbench::kernels
