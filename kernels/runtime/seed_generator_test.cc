// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/seed_generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>

#include "tests/support/catch2.h"

namespace mixerbench::kernels {
namespace {

TEST_CASE("seeds: drawn from a generator, or handed out in order until there are no more") {
  const SeedGenerator drawn = at::detail::createCPUGenerator(3);
  CHECK_FALSE(drawn.Next(at::kCPU).equal(drawn.Next(at::kCPU)));
  const at::Tensor seeds = at::tensor({5, 8}, at::kLong);
  const SeedGenerator listed(seeds);
  const SeedGenerator copy = listed;
  CHECK(listed.Next(at::kCPU).item<std::int64_t>() == 5);
  const at::Tensor second = copy.Next(at::kCPU);
  CHECK(second.item<std::int64_t>() == 8);
  seeds[1] = 13;  // as a replay finds it
  CHECK(second.item<std::int64_t>() == 13);
  CHECK_THROWS_WITH(listed.Next(at::kCPU), Catch::Contains("more masks than seeds"));
}

}  // namespace
}  // namespace mixerbench::kernels
