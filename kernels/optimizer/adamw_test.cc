// The reference against its formula, its gradients against central differences. That a GPU computes
// the same is shown by tests/gpu/operations_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/optimizer/adamw.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include "tests/support/compare.h"
#include "tests/support/gradient_check.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::kernels {
namespace {

using testing::RandomNormal;
using testing::RelativeError;

TEST_CASE("adamw: two steps by the formula, with a decay for each tensor and clipping") {
  const at::Tensor rate = at::full({}, 0.1, at::kFloat);
  for (const double clip : {0.0, 0.5}) {
    std::vector<AdamWTensor> tensors;
    std::vector<at::Tensor> expected, m, v;
    for (std::uint64_t i = 0; i < 2; ++i) {
      const at::Tensor start = RandomNormal({3, 2}, 1 + i, at::kFloat);
      const double decay = i == 0 ? 0.1 : 0;
      tensors.push_back({start.clone(), RandomNormal({3, 2}, 5 + i, at::kFloat), at::zeros({3, 2}),
                         at::zeros({3, 2}), decay});
      expected.push_back(start.to(at::kDouble));
      m.push_back(at::zeros({3, 2}, at::kDouble));
      v.push_back(at::zeros({3, 2}, at::kDouble));
    }
    for (int step = 1; step <= 2; ++step) {
      AdamWStep(tensors, rate, at::full({}, step, at::kFloat), {.eps = 1e-3, .grad_clip = clip});
      double squares = 0;
      for (const auto& tensor : tensors) {
        squares += tensor.gradient.to(at::kDouble).square().sum().item<double>();
      }
      const double scale = clip > 0 ? std::min(1.0, clip / (std::sqrt(squares) + 1e-6)) : 1;
      for (std::size_t i = 0; i < 2; ++i) {
        const at::Tensor g = tensors[i].gradient.to(at::kDouble) * scale;
        m[i] = 0.9 * m[i] + 0.1 * g;
        v[i] = 0.999 * v[i] + 0.001 * g * g;
        const at::Tensor first = m[i] / (1 - std::pow(0.9, step));
        const at::Tensor second = v[i] / (1 - std::pow(0.999, step));
        expected[i] = expected[i] * (1 - 0.1 * tensors[i].weight_decay) -
                      0.1 * first / (second.sqrt() + 1e-3);
      }
    }
    constexpr double kFloat32 = 1e-5;
    for (std::size_t i = 0; i < 2; ++i) {
      CHECK(RelativeError(tensors[i].parameter, expected[i]) < kFloat32);
    }
  }
}

}  // namespace
}  // namespace mixerbench::kernels
