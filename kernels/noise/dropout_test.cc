// The reference against its formula, its gradients against central differences. That a GPU computes
// the same is shown by tests/gpu/operations_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/noise/dropout.h"

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

using testing::BitwiseEqual;
using testing::Longs;

TEST_CASE("dropout masks: a function of seed and index with the right share of zeros") {
  const at::Tensor mask = DropoutMask({100, 1001}, 0.25, Longs({7}));
  CHECK(((mask == 0) | (mask == 1)).all().item<bool>());
  CHECK(BitwiseEqual(mask.flatten().narrow(0, 0, 7), DropoutMask({7}, 0.25, Longs({7}))));
  CHECK_FALSE(BitwiseEqual(mask, DropoutMask({100, 1001}, 0.25, Longs({8}))));
  // Five standard errors of a mean of 1e5 draws.
  CHECK(std::abs(mask.mean().item<double>() - 0.75) < 5 * std::sqrt(0.25 * 0.75 / 1e5));
  CHECK(DropoutMask({5}, 0, Longs({7})).equal(at::ones({5})));
  CHECK(KeptShare(1 - 1e-9) > 0);
}

}  // namespace
}  // namespace mixerbench::kernels
