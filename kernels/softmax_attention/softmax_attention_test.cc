// SPDX-License-Identifier: Apache-2.0
#include "kernels/softmax_attention/softmax_attention.h"

#include <cmath>
#include <cstdint>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>

#include "kernels/softmax_attention/softmax_attention_plan.h"
#include "tests/support/compare.h"
#include "tests/support/gradient_check.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::kernels {
namespace {

using testing::RandomNormal;
using testing::RelativeError;

constexpr double kFloat64Tolerance = 1e-12;  // a few roundings at 1e-16

TEST_CASE("softmax attention: the three tokens of softmax_attention.md") {
  const SoftmaxAttentionArgs args{
      .q = at::tensor({1., 1., 2.}, at::kDouble).view({1, 3, 1, 1}),
      .k = at::tensor({1., 2., 1.}, at::kDouble).log().view({1, 3, 1, 1}),
      .v = at::tensor({6., 3., 0.}, at::kDouble).view({1, 3, 1, 1}),
      .scale = 1};
  for (const auto path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    CHECK(RelativeError(SoftmaxAttention(args, path).flatten(),
                        at::tensor({6., 4., 3.}, at::kDouble)) < kFloat64Tolerance);
  }
}

TEST_CASE("softmax attention: query heads of a group share one key head, gradients included") {
  const auto function = [](ExecutionPath path) {
    return [path](const std::vector<at::Tensor>& x) {
      return std::vector<at::Tensor>{SoftmaxAttention({.q = x[0], .k = x[1], .v = x[2]}, path)};
    };
  };
  for (const std::int64_t num_keys : {9, 13}) {
    const std::vector<at::Tensor> inputs = {RandomNormal({2, 9, 6, 4}, 1),
                                            RandomNormal({2, num_keys, 2, 4}, 2),
                                            RandomNormal({2, num_keys, 2, 3}, 3)};
    const auto expected = testing::Differentiate(function(ExecutionPath::kReference), inputs);
    const auto actual = testing::Differentiate(function(ExecutionPath::kFast), inputs);
    CHECK(RelativeError(actual.outputs[0], expected.outputs[0]) < kFloat64Tolerance);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      CHECK(RelativeError(actual.gradients[i], expected.gradients[i]) < kFloat64Tolerance);
    }
    // Query head 4 belongs to key head floor(4 * 2 / 6) = 1.
    const auto alone = SoftmaxAttention({.q = inputs[0].narrow(2, 4, 1),
                                         .k = inputs[1].narrow(2, 1, 1),
                                         .v = inputs[2].narrow(2, 1, 1)},
                                        ExecutionPath::kFast);
    CHECK(RelativeError(actual.outputs[0].narrow(2, 4, 1), alone) < kFloat64Tolerance);
  }
}

TEST_CASE("softmax attention: fewer queries than keys stand at the end") {
  const auto q = RandomNormal({1, 11, 2, 4}, 1);
  const auto k = RandomNormal({1, 11, 2, 4}, 2);
  const auto v = RandomNormal({1, 11, 2, 4}, 3);
  const auto whole = SoftmaxAttention({.q = q, .k = k, .v = v}, ExecutionPath::kFast);
  for (const std::int64_t num_queries : {1, 4, 10}) {
    const auto tail =
        SoftmaxAttention({.q = q.slice(1, 11 - num_queries), .k = k, .v = v}, ExecutionPath::kFast);
    CHECK(RelativeError(tail, whole.slice(1, 11 - num_queries)) < kFloat64Tolerance);
  }
}

TEST_CASE("softmax attention: dropout is a function of the generator, the same on both paths") {
  const auto q = RandomNormal({2, 40, 2, 4}, 1);
  const auto k = RandomNormal({2, 40, 2, 4}, 2);
  const auto ones = at::ones({2, 40, 2, 1}, at::kDouble);
  const auto run = [&](std::uint64_t seed, ExecutionPath path) {
    return SoftmaxAttention({.q = q,
                             .k = k,
                             .v = ones,
                             .dropout_p = 0.25,
                             .generator = at::detail::createCPUGenerator(seed)},
                            path);
  };
  const auto o = run(5, ExecutionPath::kFast);
  CHECK(testing::BitwiseEqual(o, run(5, ExecutionPath::kFast)));
  CHECK(RelativeError(run(5, ExecutionPath::kReference), o) < kFloat64Tolerance);
  CHECK(!testing::BitwiseEqual(o, run(6, ExecutionPath::kFast)));
  // With v = 1 an output is the sum of the kept weights over 1 - p: 1 on average. Its deviation is
  // at most sqrt(p / (1 - p)) = 0.58 for one query, so 0.046 for the mean of 160; 5 of those.
  CHECK(std::abs(o.mean().item<double>() - 1) < 5 * 0.046);
  CHECK(o.std().item<double>() > 0.01);
}

TEST_CASE("softmax attention: impossible arguments are refused") {
  const auto q = RandomNormal({1, 4, 3, 2}, 1);
  const auto k = RandomNormal({1, 4, 2, 2}, 2);
  CHECK_THROWS_WITH(SoftmaxAttention({.q = q, .k = k, .v = k}, ExecutionPath::kFast),
                    Catch::Contains("multiple of Hk"));
  CHECK_THROWS_WITH(
      SoftmaxAttention({.q = q, .k = q.slice(1, 1), .v = q.slice(1, 1)}, ExecutionPath::kFast),
      Catch::Contains("as many keys as queries"));
  CHECK_THROWS_WITH(
      SoftmaxAttention({.q = q, .k = q, .v = q, .dropout_p = 0.1}, ExecutionPath::kReference),
      Catch::Contains("needs a generator"));
}

TEST_CASE("softmax attention: a block of threads holds what fits, long sequences are ATen's") {
  using softmax_attention::AttentionPlan;
  const auto plan = [](std::int64_t seq_len, std::int64_t head_dim, int shared_kilobytes) {
    cuda::DeviceLimits limits;
    limits.shared_memory_bytes = shared_kilobytes * 1024;
    return softmax_attention::PlanAttention(seq_len, head_dim, limits);
  };
  constexpr int kHopper = 227;
  constexpr int kAmpere = 163;
  for (const std::int64_t head_dim : {16, 32, 64, 128}) {
    CHECK(plan(1, head_dim, kHopper) == AttentionPlan::kWhole);
    CHECK(plan(128, head_dim, kAmpere) == AttentionPlan::kWhole);
  }
  CHECK(plan(256, 64, kHopper) == AttentionPlan::kWhole);
  CHECK(plan(256, 64, kAmpere) == AttentionPlan::kTiled);   // 182 KiB
  CHECK(plan(129, 128, kHopper) == AttentionPlan::kTiled);  // too many sums for the registers
  CHECK(plan(257, 16, kHopper) == AttentionPlan::kTiled);
  CHECK(plan(512, 64, kHopper) == AttentionPlan::kTiled);
  CHECK(plan(513, 64, kHopper) == AttentionPlan::kNone);
  CHECK(plan(64, 80, kHopper) == AttentionPlan::kNone);
}

}  // namespace
}  // namespace mixerbench::kernels
