// SPDX-License-Identifier: Apache-2.0
#include "kernels/routing/top_k.h"

#include <limits>
#include <stdexcept>

#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "tests/support/catch2.h"

namespace mixerbench::kernels {
namespace {

TEST_CASE("top k: the largest first, of equal ones the first, without gradients") {
  const at::Tensor x = at::tensor({1.0, 3.0, 2.0, 3.0, 3.0}).requires_grad_(true);
  CHECK(TopK(x, 4).equal(at::tensor({1, 3, 4, 2}, at::kLong)));
  CHECK_FALSE(TopK(x, 2).requires_grad());
  const at::Tensor equal = at::zeros({2, 3, 300});
  CHECK(TopK(equal, 2).select(-1, 1).eq(1).all().item<bool>());
}

TEST_CASE("top k: NaN counts as the largest") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  const at::Tensor x = at::tensor({infinity, nan, -infinity, nan});
  CHECK(TopK(x, 4).equal(at::tensor({1, 3, 0, 2}, at::kLong)));
}

TEST_CASE("top k: refuses more choices than there are") {
  CHECK_THROWS_AS(TopK(at::zeros({2, 3}), 4), std::logic_error);
  CHECK_THROWS_AS(TopK(at::zeros({2, 3}), 0), std::logic_error);
}

}  // namespace
}  // namespace mixerbench::kernels
