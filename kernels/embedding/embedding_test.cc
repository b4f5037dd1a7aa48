// The reference against its formula, its gradients against central differences. That a GPU computes
// the same is shown by tests/gpu/operations_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/embedding/embedding.h"

#include <cstdint>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>

#include "kernels/embedding/embedding_cuda.h"
#include "kernels/noise/dropout.h"
#include "kernels/norm/residual_norm.h"
#include "tests/support/compare.h"
#include "tests/support/gradient_check.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::kernels {
namespace {

using testing::BitwiseEqual;
using testing::GradientCheckError;
using testing::Longs;
using testing::RandomNormal;
using testing::RelativeError;

constexpr double kFloat64Tolerance = 1e-12;       // a few roundings at 1e-16
constexpr double kGradientCheckTolerance = 1e-7;  // docs/NUMERICS.md

TEST_CASE("embedding: rows, positions, the mask and the norm") {
  const at::Tensor tokens = at::tensor({0, 2, 2, 1, 0, 2}, at::kInt).view({2, 3});
  const at::Tensor table = RandomNormal({3, 4}, 1);
  const at::Tensor positions = RandomNormal({3, 4}, 2);
  const Norm norm{RandomNormal({4}, 3), RandomNormal({4}, 4), 1e-3};
  const auto embed = [&](const std::vector<at::Tensor>& x) {
    return Embedding({.tokens = tokens,
                      .table = x[0],
                      .positions = x[1],
                      .dropout_p = 0.5,
                      .seed = Longs({3}),
                      .norm = {x[2], x[3], norm.eps}});
  };
  const std::vector<at::Tensor> inputs = {table, positions, norm.weight, norm.bias};
  const auto out = embed(inputs);
  const at::Tensor mask = DropoutMask({2, 3, 4}, 0.5, Longs({3}));
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::int64_t t = 0; t < 3; ++t) {
      const auto token = tokens[b][t].item<std::int64_t>();
      CHECK(RelativeError(out.stream[b][t], (table[token] + positions[t]) * mask[b][t] * 2) <
            kFloat64Tolerance);
    }
  }
  CHECK(BitwiseEqual(out.normalised, ResidualNorm({.added = out.stream, .norm = norm}).normalised));
  CHECK(BitwiseEqual(out.table, table));
  const auto function = [&](const std::vector<at::Tensor>& x) -> std::vector<at::Tensor> {
    const auto result = embed(x);
    return {result.stream, result.normalised, result.table};
  };
  CHECK(GradientCheckError(function, inputs) < kGradientCheckTolerance);
  const EmbeddingArgs no_seed{.tokens = tokens, .table = table, .dropout_p = 0.5, .norm = norm};
  CHECK_THROWS_WITH(Embedding(no_seed), Catch::Contains("dropout needs a seed"));
  const EmbeddingArgs no_norm{.tokens = tokens, .table = table, .norm = {}};
  CHECK_THROWS_WITH(Embedding(no_norm), Catch::Contains("an embedding has a norm"));
}

}  // namespace
}  // namespace mixerbench::kernels
