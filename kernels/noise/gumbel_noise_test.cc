// SPDX-License-Identifier: Apache-2.0
#include "kernels/noise/gumbel_noise.h"

#include <ATen/ops/isfinite.h>

#include "tests/support/compare.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::kernels {
namespace {

using testing::Longs;

// Mean: Euler's constant; variance: pi^2 / 6. Of 10^5 elements their estimates have standard errors
// 0.004 and 0.01.
TEST_CASE("gumbel noise: a function of seed and index with the moments of the distribution") {
  const at::Tensor noise = GumbelNoise({100, 1001}, Longs({7}));
  CHECK(testing::BitwiseEqual(noise.flatten().narrow(0, 0, 7), GumbelNoise({7}, Longs({7}))));
  CHECK_FALSE(testing::BitwiseEqual(noise, GumbelNoise({100, 1001}, Longs({8}))));
  CHECK(at::isfinite(noise).all().item<bool>());
  CHECK(std::abs(noise.mean().item<double>() - 0.577216) < 0.016);
  CHECK(std::abs(noise.var().item<double>() - 1.644934) < 0.04);
}

}  // namespace
}  // namespace mixerbench::kernels
