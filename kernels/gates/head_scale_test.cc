// The reference against its formula, its gradients against central differences. That a GPU computes
// the same is shown by tests/gpu/operations_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gates/head_scale.h"

#include <vector>

#include <ATen/TensorOperators.h>

#include "kernels/gates/head_scale_cuda.h"
#include "tests/support/compare.h"
#include "tests/support/gradient_check.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::kernels {
namespace {

using testing::RandomNormal;

constexpr double kFloat64Tolerance = 1e-12;       // a few roundings at 1e-16
constexpr double kGradientCheckTolerance = 1e-7;  // docs/NUMERICS.md

TEST_CASE("head scale: a number of each row or of each head, alone and added to something") {
  const at::Tensor x = RandomNormal({2, 3, 4, 5}, 1);
  const at::Tensor base = RandomNormal({2, 3, 4, 5}, 2);
  for (const at::Tensor& scale : {RandomNormal({2, 3, 4}, 3), RandomNormal({4}, 4)}) {
    at::Tensor expected = x.clone();
    for (int head = 0; head < 4; ++head) {
      expected.select(2, head) *= scale.select(-1, head).unsqueeze(-1);
    }
    CHECK(testing::RelativeError(ScaleHeads(x, scale), expected) < kFloat64Tolerance);
    CHECK(testing::RelativeError(ScaleHeads(x, scale, base), base + expected) < kFloat64Tolerance);
    const auto function = [](const std::vector<at::Tensor>& in) -> std::vector<at::Tensor> {
      return {ScaleHeads(in[0], in[1], in[2])};
    };
    CHECK(testing::GradientCheckError(function, {x, scale, base}) < kGradientCheckTolerance);
  }
}

TEST_CASE("head scale: the result has the dtype of x and is rounded once") {
  const at::Tensor x = RandomNormal({7, 2, 8}, 1).to(at::kBFloat16);
  const at::Tensor base = RandomNormal({7, 2, 8}, 2).to(at::kBFloat16);
  const at::Tensor scale = RandomNormal({2}, 3).to(at::kFloat);
  const at::Tensor exact = base.to(at::kDouble) + x.to(at::kDouble) * scale.unsqueeze(-1);
  const at::Tensor y = ScaleHeads(x, scale, base);
  CHECK(y.scalar_type() == at::kBFloat16);
  CHECK(y.equal(exact.to(at::kFloat).to(at::kBFloat16)));
}

TEST_CASE("head scale: shapes that do not fit are named, and which the device function takes") {
  const at::Tensor x = RandomNormal({2, 3, 4}, 1);
  CHECK_THROWS_WITH(ScaleHeads(x, RandomNormal({2}, 2)), Catch::Matchers::Contains("[...,H]"));
  CHECK_THROWS_WITH(ScaleHeads(x, RandomNormal({3}, 2), RandomNormal({2, 3, 1}, 3)),
                    Catch::Matchers::Contains("like them"));
  CHECK(HeadScaleSupports(4, 64));
  CHECK(HeadScaleSupports(1, 8));
  CHECK_FALSE(HeadScaleSupports(4, 24));
  CHECK_FALSE(HeadScaleSupports(4, 512));
}

}  // namespace
}  // namespace mixerbench::kernels
