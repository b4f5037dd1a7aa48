// The reference against its formula, its gradients against central differences. That a GPU computes
// the same is shown by tests/gpu/operations_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/convolution/direct_convolution.h"

#include <cstdint>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>

#include "tests/support/compare.h"
#include "tests/support/gradient_check.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::kernels {
namespace {

using testing::RandomNormal;

constexpr double kFloat64Tolerance = 1e-12;       // a few roundings at 1e-16
constexpr double kGradientCheckTolerance = 1e-7;  // docs/NUMERICS.md

TEST_CASE("direct convolution: each output is the sum over the past that its taps reach") {
  constexpr std::int64_t kLength = 7;
  const at::Tensor u = RandomNormal({2, kLength, 3}, 1);
  for (const std::int64_t num_taps : {1, 4, 7}) {
    for (const std::int64_t num_outputs : {1, 5, 7}) {
      CAPTURE(num_taps, num_outputs);
      const at::Tensor filter = RandomNormal({num_taps, 3}, 2);
      at::Tensor expected = at::zeros({2, kLength, 3}, u.options());
      for (std::int64_t t = 0; t < kLength; ++t) {
        for (std::int64_t lag = 0; lag < num_taps && lag <= t; ++lag) {
          expected.select(1, t) += filter[lag] * u.select(1, t - lag);
        }
      }
      CHECK(testing::RelativeError(DirectConvolution(u, filter, num_outputs),
                                   expected.narrow(1, kLength - num_outputs, num_outputs)) <
            kFloat64Tolerance);
      const auto function = [&](const std::vector<at::Tensor>& x) -> std::vector<at::Tensor> {
        return {DirectConvolution(x[0], x[1], num_outputs)};
      };
      CHECK(testing::GradientCheckError(function, {u, filter}) < kGradientCheckTolerance);
    }
  }
}

TEST_CASE("direct convolution: shapes that do not fit are named") {
  const at::Tensor u = RandomNormal({2, 4, 3}, 1);
  CHECK_THROWS_WITH(DirectConvolution(u, RandomNormal({5, 3}, 2), 4),
                    Catch::Matchers::Contains("L <= S"));
  CHECK_THROWS_WITH(DirectConvolution(u, RandomNormal({4, 2}, 2), 4),
                    Catch::Matchers::Contains("[L,D]"));
  CHECK_THROWS_WITH(DirectConvolution(u, RandomNormal({4, 3}, 2), 5),
                    Catch::Matchers::Contains("outputs"));
}

}  // namespace
}  // namespace mixerbench::kernels
