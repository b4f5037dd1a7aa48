// The reference against its formula, its gradients against central differences. That a GPU computes
// the same is shown by tests/gpu/operations_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/differentiable.h"

#include <cstdint>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include "tests/support/compare.h"
#include "tests/support/gradient_check.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::kernels {
namespace {

using testing::BitwiseEqual;
using testing::RandomNormal;

TEST_CASE("differentiable: gradients arrive, unused outputs are zero, second derivatives refuse") {
  const at::Tensor a = RandomNormal({3}, 1).requires_grad_(true);
  const at::Tensor b = RandomNormal({3}, 2).requires_grad_(true);
  const auto product = [&] {
    at::Tensor c;
    at::Tensor unused;
    {
      const at::NoGradGuard no_grad;
      c = a * b;
      unused = a + b;
    }
    SetBackward("Product", {a, b}, {c, unused}, {a, b, c},
                [](const BackwardArgs& args) -> std::vector<at::Tensor> {
                  REQUIRE(args.saved.size() == 3);
                  CHECK_FALSE(args.grads[1].defined());
                  CHECK(args.wanted == std::vector<bool>{true, true});
                  return {args.grads[0] * args.saved[1], args.grads[0] * args.saved[0]};
                });
    return c;
  };
  product().sum().backward();
  CHECK(BitwiseEqual(a.grad(), b));
  CHECK(BitwiseEqual(b.grad(), a));
  {
    const at::NoGradGuard no_grad;
    CHECK_FALSE(product().requires_grad());
  }
  CHECK_THROWS_WITH(product().sum().backward({}, /*retain_graph=*/true, /*create_graph=*/true),
                    Catch::Contains("Product has no second derivative"));
}

}  // namespace
}  // namespace mixerbench::kernels
