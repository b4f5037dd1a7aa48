// The reference against its formula, its gradients against central differences. That a GPU computes
// the same is shown by tests/gpu/operations_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/convolution/short_convolution.h"

#include <cstdint>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>

#include "kernels/convolution/short_convolution_cuda.h"
#include "tests/support/compare.h"
#include "tests/support/gradient_check.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::kernels {
namespace {

using testing::GradientCheckError;
using testing::RandomNormal;
using testing::RelativeError;

constexpr double kFloat64Tolerance = 1e-12;       // a few roundings at 1e-16
constexpr double kGradientCheckTolerance = 1e-7;  // docs/NUMERICS.md

TEST_CASE("short convolution: each token sees the last inputs, then activation and norm") {
  const at::Tensor x = RandomNormal({2, 6, 5}, 1);
  const at::Tensor weight = RandomNormal({5, 3}, 2);
  const at::Tensor bias = RandomNormal({5}, 3);
  at::Tensor z = at::zeros({2, 6, 5}, x.options());
  for (std::int64_t t = 0; t < 6; ++t) {
    at::Tensor sum = bias.expand({2, 5}).clone();
    for (std::int64_t m = 0; m < 3; ++m) {
      if (t - 2 + m >= 0) sum += weight.select(1, m) * x.select(1, t - 2 + m);
    }
    z.select(1, t).copy_(sum);
  }
  CHECK(RelativeError(ShortConvolution({.x = x, .weight = weight, .bias = bias}), z) <
        kFloat64Tolerance);
  const at::Tensor y = z * z.sigmoid();
  const at::Tensor heads = y.narrow(-1, 0, 4).unflatten(-1, {2, 2});
  const at::Tensor normalised = heads / (heads.square().sum(-1, true) + 1e-6).sqrt();
  const at::Tensor out = ShortConvolution(
      {.x = x, .weight = weight, .bias = bias, .silu = true, .norm_channels = 4, .norm_dim = 2});
  CHECK(RelativeError(out.narrow(-1, 0, 4), normalised.flatten(-2)) < kFloat64Tolerance);
  CHECK(RelativeError(out.narrow(-1, 4, 1), y.narrow(-1, 4, 1)) < kFloat64Tolerance);
  const auto function = [](const std::vector<at::Tensor>& in) -> std::vector<at::Tensor> {
    return {ShortConvolution({.x = in[0],
                              .weight = in[1],
                              .bias = in[2],
                              .silu = true,
                              .norm_channels = 4,
                              .norm_dim = 2})};
  };
  CHECK(GradientCheckError(function, {x, weight, bias}) < kGradientCheckTolerance);
}

TEST_CASE("short convolution: sizes that the device function takes") {
  CHECK(ShortConvolutionSupports(384, 4, 256, 64));
  CHECK(ShortConvolutionSupports(128, 3, 0, 0));
  CHECK_FALSE(ShortConvolutionSupports(128, 5, 0, 0));
  CHECK_FALSE(ShortConvolutionSupports(132, 4, 0, 0));
  CHECK_FALSE(ShortConvolutionSupports(128, 4, 64, 4));
  CHECK_FALSE(ShortConvolutionSupports(192, 4, 96, 48));
}

}  // namespace
}  // namespace mixerbench::kernels
