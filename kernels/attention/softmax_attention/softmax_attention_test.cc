// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/softmax_attention/softmax_attention.h"

#include <array>
#include <cmath>
#include <cstdint>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "kernels/attention/softmax_attention/attention_dropout.h"
#include "kernels/attention/softmax_attention/softmax_attention_plan.h"
#include "tests/support/compare.h"
#include "tests/support/gradient_check.h"
#include "tests/support/peak_memory.h"
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
    CHECK(RelativeError(actual, expected) < kFloat64Tolerance);
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

TEST_CASE("softmax attention: memory over a long cache does not grow with queries times keys") {
  constexpr std::int64_t kNumQueries = 2048;
  constexpr std::int64_t kNumKeys = 24'576;
  const auto draw = [](std::int64_t num_tokens, std::uint64_t seed) {
    return RandomNormal({1, num_tokens, 2, 4}, seed, at::kFloat);
  };
  const SoftmaxAttentionArgs args{
      .q = draw(kNumQueries, 1), .k = draw(kNumKeys, 2), .v = draw(kNumKeys, 3)};
  at::Tensor o;
  const std::int64_t peak = testing::PeakTensorBytes([&] {
    const at::NoGradGuard no_grad;
    o = SoftmaxAttention(args, ExecutionPath::kFast);
  });
  // Scores and weights of one tile; all of them would be 2 x 384 MiB.
  CHECK(peak < std::int64_t{150} << 20);
  const auto last = [&](const at::Tensor& x) { return x.slice(1, x.size(1) - 3); };
  CHECK(RelativeError(last(o), SoftmaxAttention({.q = last(args.q), .k = args.k, .v = args.v},
                                                ExecutionPath::kReference)) < 1e-5);
}

TEST_CASE("softmax attention: tiles of queries are one function, gradients included") {
  // Two tiles of 256 and 44 queries.
  constexpr std::int64_t kNumQueries = 300;
  const std::vector<at::Tensor> inputs = {RandomNormal({1, kNumQueries, 32, 1}, 1),
                                          RandomNormal({1, 2048, 1, 1}, 2),
                                          RandomNormal({1, 2048, 1, 1}, 3)};
  const auto function = [](ExecutionPath path) {
    return [path](const std::vector<at::Tensor>& x) {
      return std::vector<at::Tensor>{SoftmaxAttention({.q = x[0], .k = x[1], .v = x[2]}, path)};
    };
  };
  const auto expected = testing::Differentiate(function(ExecutionPath::kReference), inputs);
  const auto actual = testing::Differentiate(function(ExecutionPath::kFast), inputs);
  CHECK(RelativeError(actual, expected) < kFloat64Tolerance);
}

// Tokens 4 and 8 of sequence 0, token 5 of sequence 1 and one entry of padding, of 9 tokens each.
ScoredPositions FourRows() {
  return {at::tensor({4, 8, 14, 0}, at::kLong), {}, /*per_sequence=*/2};
}

TEST_CASE("softmax attention: scored queries are those of all queries, gradients included") {
  const auto rows = FourRows();
  const std::vector<at::Tensor> inputs = {
      RandomNormal({2, 9, 6, 4}, 1), RandomNormal({2, 9, 2, 4}, 2), RandomNormal({2, 9, 2, 3}, 3)};
  for (const double dropout_p : {0.0, 0.25}) {
    const auto args = [&](const at::Tensor& q, const std::vector<at::Tensor>& x) {
      return SoftmaxAttentionArgs{.q = q,
                                  .k = x[1],
                                  .v = x[2],
                                  .dropout_p = dropout_p,
                                  .generator = at::detail::createCPUGenerator(5)};
    };
    const auto all = [&](const std::vector<at::Tensor>& x) {
      const auto o = ReferenceSoftmaxAttention(args(x[0], x));
      return std::vector<at::Tensor>{
          o.flatten(0, 1).index_select(0, rows.positions).narrow(0, 0, 3)};
    };
    const auto expected = testing::Differentiate(all, inputs);
    for (const auto path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
      const auto chosen = [&](const std::vector<at::Tensor>& x) {
        auto few = args(x[0].flatten(0, 1).index_select(0, rows.positions).view({2, 2, 6, 4}), x);
        few.scored = &rows;
        return std::vector<at::Tensor>{SoftmaxAttention(few, path).flatten(0, 1).narrow(0, 0, 3)};
      };
      CAPTURE(dropout_p, path == ExecutionPath::kFast);
      const auto actual = testing::Differentiate(chosen, inputs);
      CHECK(RelativeError(actual, expected) < kFloat64Tolerance);
    }
  }
}

TEST_CASE("softmax attention: a query of padding stands at the first token of its sequence") {
  const auto rows = FourRows();
  const auto q = RandomNormal({2, 2, 1, 4}, 1);
  const auto k = RandomNormal({2, 9, 1, 4}, 2);
  const auto v = RandomNormal({2, 9, 1, 3}, 3);
  for (const auto path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    const auto o = SoftmaxAttention({.q = q, .k = k, .v = v, .scored = &rows}, path);
    CHECK(RelativeError(o[1][1], v[1][0]) < kFloat64Tolerance);
  }
}

TEST_CASE("softmax attention: few scored queries are worth kernels of their own") {
  using softmax_attention::SupportsScoredPositions;
  CHECK(SupportsScoredPositions(16, 256, 64));
  CHECK(SupportsScoredPositions(1, 4, 80));
  CHECK(!SupportsScoredPositions(0, 256, 64));   // rows in no order
  CHECK(!SupportsScoredPositions(65, 256, 64));  // more than a quarter
  CHECK(SupportsScoredPositions(64, 256, 128));
  CHECK(!SupportsScoredPositions(65, 1024, 128));  // more than one CTA holds
  CHECK(SupportsScoredPositions(128, 1024, 64));
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

// How often each of the 32 bits of `num_words` words is set.
std::array<int, 32> CountDropped(std::uint32_t threshold, int num_words) {
  std::array<int, 32> counts = {};
  for (int i = 0; i < num_words; ++i) {
    const std::uint32_t word = softmax_attention::DroppedWord(
        threshold, /*seed=*/7, /*row=*/i / 1024, i / 8 % 16, i % 8, i / 128 % 8);
    for (int bit = 0; bit < 32; ++bit) counts[bit] += static_cast<int>(word >> bit & 1);
  }
  return counts;
}

TEST_CASE("softmax attention: every weight is dropped with the probability of the rule") {
  constexpr int kNumWords = 1 << 14;
  for (const double p : {0.001, 0.1, 0.25, 0.5, 0.999}) {
    const auto rule = softmax_attention::MakeDropoutRule(p);
    const double share = 1 - softmax_attention::KeptShare(rule);
    CHECK(std::abs(share - p) <= 0.5 / softmax_attention::kDropoutRange);
    CHECK(std::abs(rule.scale * (1 - share) - 1) < 1e-6);
    // Five standard deviations: 160 draws of a normal number exceed them once in 10^4 runs, and
    // these draws are always the same.
    const double slack = 5 * std::sqrt(share * (1 - share) * kNumWords);
    for (const int count : CountDropped(rule.threshold, kNumWords)) {
      CAPTURE(p, count);
      CHECK(std::abs(count - share * kNumWords) < slack);
    }
  }
  CHECK(softmax_attention::MakeDropoutRule(0).threshold == 0);
  // What is kept is scaled by a finite factor, however close p is to 1.
  CHECK(softmax_attention::KeptShare(softmax_attention::MakeDropoutRule(1 - 1e-9)) > 0);
}

TEST_CASE("softmax attention: which weights are dropped follows from positions alone") {
  constexpr std::int64_t kNumKeys = 39;
  constexpr double kP = 0.4;
  const auto generator = at::detail::createCPUGenerator(11);
  const auto seed = static_cast<std::uint64_t>(
      at::empty({1}, at::kLong).random_(generator.clone()).item<std::int64_t>());
  // Of equal scores; row = b H + h.
  const auto weight = [&](std::int64_t row, std::int64_t query, std::int64_t key) {
    const auto rule = softmax_attention::MakeDropoutRule(kP);
    const std::uint32_t dropped = softmax_attention::DroppedKeys(
        rule.threshold, seed, static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(query),
        static_cast<std::uint32_t>(key / 16));
    if (key > query || (dropped >> key % 16 & 1) != 0) return 0.0;
    return 1 / (static_cast<double>(query + 1) * softmax_attention::KeptShare(rule));
  };
  for (const std::int64_t num_queries : {kNumKeys, std::int64_t{21}}) {
    // Values e_j: output j of a query is its weight of key j.
    const auto values = at::eye(kNumKeys, at::kDouble).view({1, kNumKeys, 1, kNumKeys});
    const auto o = SoftmaxAttention({.q = at::zeros({2, num_queries, 3, 1}, at::kDouble),
                                     .k = at::zeros({2, kNumKeys, 3, 1}, at::kDouble),
                                     .v = values.expand({2, -1, 3, -1}),
                                     .dropout_p = kP,
                                     .generator = generator.clone()},
                                    ExecutionPath::kFast);
    auto expected = at::empty_like(o);  // [B,T,H,S]
    auto weights = expected.accessor<double, 4>();
    for (std::int64_t b = 0; b < 2; ++b) {
      for (std::int64_t h = 0; h < 3; ++h) {
        for (std::int64_t i = 0; i < num_queries; ++i) {
          for (std::int64_t j = 0; j < kNumKeys; ++j) {
            weights[b][i][h][j] = weight(b * 3 + h, kNumKeys - num_queries + i, j);
          }
        }
      }
    }
    CHECK(RelativeError(o, expected) < kFloat64Tolerance);
  }
}

TEST_CASE("softmax attention: impossible arguments are refused") {
  const auto q = RandomNormal({1, 4, 3, 2}, 1);
  const auto k = RandomNormal({1, 4, 2, 2}, 2);
  CHECK_THROWS_WITH(SoftmaxAttention({.q = q, .k = k, .v = k}, ExecutionPath::kFast),
                    Catch::Contains("multiple of Hk"));
  CHECK_THROWS_WITH(
      SoftmaxAttention({.q = q, .k = q.slice(1, 1), .v = q.slice(1, 1)}, ExecutionPath::kFast),
      Catch::Contains("as many keys as queries"));
  const auto rows = FourRows();  // two queries of two sequences
  CHECK_THROWS_WITH(
      SoftmaxAttention({.q = q, .k = q, .v = q, .scored = &rows}, ExecutionPath::kFast),
      Catch::Contains("one for each query"));
  CHECK_THROWS_WITH(
      SoftmaxAttention({.q = q, .k = q, .v = q, .dropout_p = 0.1}, ExecutionPath::kReference),
      Catch::Contains("needs a generator"));
}

TEST_CASE("softmax attention: a CTA holds what fits, long sequences are ATen's") {
  using softmax_attention::AttentionPlan;
  const auto plan = [](std::int64_t seq_len, std::int64_t head_dim, int shared_kilobytes,
                       const softmax_attention::AttentionForm& form = {}) {
    device::DeviceLimits limits;
    limits.shared_memory_bytes = shared_kilobytes * 1024;
    return softmax_attention::PlanAttention(seq_len, head_dim, form, limits);
  };
  constexpr int kHopper = 227;
  constexpr int kAmpere = 163;
  for (const std::int64_t head_dim : {16, 32, 64, 128}) {
    CHECK(plan(1, head_dim, kHopper) == AttentionPlan::kWhole);
    CHECK(plan(128, head_dim, kAmpere) == AttentionPlan::kWhole);
  }
  CHECK(plan(256, 64, kHopper) == AttentionPlan::kWhole);
  CHECK(plan(256, 64, kAmpere) == AttentionPlan::kTiled);   // 226 KiB
  CHECK(plan(129, 128, kHopper) == AttentionPlan::kTiled);  // too many sums for the registers
  CHECK(plan(257, 16, kHopper) == AttentionPlan::kTiled);
  CHECK(plan(512, 64, kHopper) == AttentionPlan::kTiled);
  CHECK(plan(513, 64, kHopper) == AttentionPlan::kNone);
  CHECK(plan(513, 64, kHopper, {.has_dropout = true}) == AttentionPlan::kTiled);
  CHECK(plan(256, 64, kHopper, {.has_dropout = true}) == AttentionPlan::kWhole);
  CHECK(plan(513, 64, kHopper, {.has_terms = true}) == AttentionPlan::kTiled);
  CHECK(plan(64, 64, kHopper, {.has_terms = true}) == AttentionPlan::kTiled);
  CHECK(plan(64, 80, kHopper) == AttentionPlan::kNone);
  CHECK(NameOf(AttentionPlan::kTiled) == "tiled");
  CHECK(NameOf(AttentionPlan::kWhole) == "whole");
  CHECK(Refusal(softmax_attention::DevicePlans(), "bf16", 80, 80) ==
        "head_k_dim 80 is none of 16, 32, 64, 128");
  CHECK(Refusal(softmax_attention::DevicePlans(), "fp32", 64, 64) == "no device code for fp32");
}

}  // namespace
}  // namespace mixerbench::kernels
