// The reference against its formula, its gradients against central differences. That a GPU computes
// the same is shown by tests/gpu/operations_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/layout/rows.h"

#include <cstdint>

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>

#include "tests/support/compare.h"
#include "tests/support/gradient_check.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::kernels {
namespace {

using testing::BitwiseEqual;
using testing::Longs;
using testing::RandomNormal;

TEST_CASE("rows: gathered, and each row of the gradient has one source") {
  const ScoredPositions selection{Longs({4, 1, 0, 0}), Longs({2, 1, 4, 4, 0, 4})};
  const at::Tensor x = RandomNormal({2, 3, 5}, 1).requires_grad_(true);
  const at::Tensor taken = GatherRows(x, selection);
  const at::Tensor expected = x.detach().flatten(0, 1).index_select(0, selection.positions);
  CHECK(BitwiseEqual(taken, expected));
  const at::Tensor gradient = RandomNormal({4, 5}, 2);
  taken.backward(gradient);
  at::Tensor wanted = at::zeros({6, 5}, at::kDouble);
  wanted[4] = gradient[0];
  wanted[1] = gradient[1];
  wanted[0] = gradient[2];  // entry 3 only fills: its gradient is dropped
  CHECK(BitwiseEqual(x.grad().flatten(0, 1), wanted));
}

TEST_CASE("rows: added where they were taken, once") {
  const ScoredPositions selection{Longs({4, 1, 0, 0}), Longs({2, 1, 4, 4, 0, 4})};
  const at::Tensor x = RandomNormal({6, 5}, 1);
  const at::Tensor source = RandomNormal({4, 5}, 2);
  at::Tensor expected = x.clone();
  expected[4] += source[0];
  expected[1] += source[1];
  expected[0] += source[2];  // entry 3 only fills
  AddRows(x, source, selection);
  CHECK(BitwiseEqual(x, expected));
}

}  // namespace
}  // namespace mixerbench::kernels
