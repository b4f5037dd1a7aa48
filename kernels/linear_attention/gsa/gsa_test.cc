// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/gsa/gsa.h"

#include <cmath>
#include <limits>

#include <ATen/TensorOperators.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/full.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "tests/support/compare.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::kernels {
namespace {

using testing::RandomNormal;
using testing::RandomUniform;
using testing::RelativeError;

constexpr double kTolerance = 1e-12;  // a few roundings at 1e-16

TEST_CASE("gsa: the two tokens of gsa.md") {
  const double ln2 = std::log(2.), ln3 = std::log(3.);
  const GsaArgs args{
      .q = at::tensor({1., 2.}, at::kDouble).view({1, 2, 1, 1}),
      .k = at::tensor({ln3, ln2}, at::kDouble).view({1, 2, 1, 1}),
      .v = at::tensor({4., 8.}, at::kDouble).view({1, 2, 1, 1}),
      .slot_writes = at::tensor({1., 0., 0.5, 1.}, at::kDouble).view({1, 2, 1, 2}),
      .log_decay = at::tensor({1., 1., 0.5, 1.}, at::kDouble).log().view({1, 2, 1, 2}),
      .scale = 1};
  for (const auto path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    const auto result = Gsa(args, path);
    CHECK(RelativeError(result.slot_probs.flatten(),
                        at::tensor({0.75, 0.25, 0.6, 0.4}, at::kDouble)) < kTolerance);
    CHECK(RelativeError(result.o.flatten(), at::tensor({3., 6.8}, at::kDouble)) < kTolerance);
    CHECK(RelativeError(result.final_keys.flatten(),
                        at::tensor({(ln3 + ln2) / 2, ln2}, at::kDouble)) < kTolerance);
    CHECK(RelativeError(result.final_values.flatten(), at::tensor({6., 8.}, at::kDouble)) <
          kTolerance);
  }
}

TEST_CASE("gsa: slots that are overwritten in turn are a sliding window") {
  constexpr std::int64_t kSlots = 4, kSeqLen = 19;
  const auto q = RandomNormal({2, kSeqLen, 1, 3}, 1), k = RandomNormal({2, kSeqLen, 1, 3}, 2);
  const auto v = RandomNormal({2, kSeqLen, 1, 5}, 3);
  auto writes = at::zeros({2, kSeqLen, 1, kSlots}, at::kDouble);
  auto log_decay = at::zeros({2, kSeqLen, 1, kSlots}, at::kDouble);
  for (std::int64_t t = 0; t < kSeqLen; ++t) {
    writes.select(1, t).select(-1, t % kSlots).fill_(1);
    log_decay.select(1, t).select(-1, t % kSlots).fill_(-std::numeric_limits<double>::infinity());
  }
  const GsaArgs args{.q = q, .k = k, .v = v, .slot_writes = writes, .log_decay = log_decay};
  for (const auto path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    const auto o = Gsa(args, path).o;
    for (std::int64_t t = kSlots - 1; t < kSeqLen; ++t) {
      const auto window_k = k.slice(1, t - kSlots + 1, t + 1);
      const auto window_v = v.slice(1, t - kSlots + 1, t + 1);
      const auto weights =
          at::softmax(at::einsum("bhd,bshd->bhs", {q.select(1, t), window_k}) / std::sqrt(3.), -1);
      CHECK(RelativeError(o.select(1, t), at::einsum("bhs,bshv->bhv", {weights, window_v})) <
            kTolerance);
    }
  }
}

TEST_CASE("gsa: what is asked for beside o says nothing that o does not") {
  const auto x = RandomNormal({1, 5, 2, 3}, 1).requires_grad_();
  const auto writes = RandomUniform({1, 5, 2, 4}, 2);
  for (const auto path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    const auto result = Gsa({.q = x, .k = x, .v = x, .slot_writes = writes}, path);
    CHECK(result.o.requires_grad());
    CHECK_FALSE(result.slot_probs.requires_grad());
    CHECK(RelativeError(result.slot_probs.sum(-1), at::full({1, 5, 2}, 1., at::kDouble)) <
          kTolerance);
  }
}

TEST_CASE("gsa: gates in bf16 or of another number of slots are refused") {
  const auto x = RandomNormal({1, 2, 1, 3}, 1);
  CHECK_THROWS_WITH(
      Gsa({.q = x, .k = x, .v = x, .slot_writes = x.to(at::kBFloat16)}, ExecutionPath::kFast),
      Catch::Contains("slot_writes must be float32 or float64"));
  CHECK_THROWS_WITH(
      Gsa({.q = x, .k = x, .v = x, .slot_writes = RandomUniform({1, 2, 1, 4}, 2), .log_decay = x},
          ExecutionPath::kFast),
      Catch::Contains("log_decay must have shape [1, 2, 1, 4]"));
}

}  // namespace
}  // namespace mixerbench::kernels
