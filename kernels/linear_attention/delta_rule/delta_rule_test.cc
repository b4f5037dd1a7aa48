// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/delta_rule/delta_rule.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "kernels/linear_attention/delta_rule/delta_rule_plan.h"
#include "tests/support/compare.h"
#include "tests/support/gradient_check.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::kernels {
namespace {

using testing::RandomNormal;
using testing::RandomUniform;
using testing::RandomUnitRows;
using testing::RelativeError;

constexpr double kFloat64Tolerance = 1e-12;  // a few roundings at 1e-16
constexpr double kFloat32Tolerance = 1e-5;   // some hundred roundings at 6e-8

TEST_CASE("delta rule: the three tokens of delta_rule.md") {
  const RecurrenceArgs args{
      .q = at::tensor({1., 0., 1., 1., 0., 1.}, at::kDouble).view({1, 3, 1, 2}),
      .k = at::tensor({1., 0., 0., 1., 0.6, 0.8}, at::kDouble).view({1, 3, 1, 2}),
      .v = at::tensor({2., 3., 4.}, at::kDouble).view({1, 3, 1, 1}),
      .log_decay = at::tensor({1., 0.5, 0.5}, at::kDouble).log().view({1, 3, 1}),
      .beta = at::tensor({1., 0.5, 1.}, at::kDouble).view({1, 3, 1}),
      .scale = 1};
  for (const auto path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    const auto [o, final_state] = DeltaRule(args, path);
    CHECK(RelativeError(o.flatten(), at::tensor({2., 2.5, 3.23}, at::kDouble)) < kFloat64Tolerance);
    CHECK(RelativeError(final_state.flatten(), at::tensor({2.36, 3.23}, at::kDouble)) <
          kFloat64Tolerance);
  }
}

TEST_CASE("delta rule: beta zero leaves the state alone") {
  const auto x = RandomUnitRows({2, 19, 2, 4}, 1);
  const auto state = RandomNormal({2, 2, 4, 4}, 2);
  for (const auto path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    const auto result = DeltaRule({.q = x,
                                   .k = x,
                                   .v = x,
                                   .beta = at::zeros({2, 19, 2}, at::kDouble),
                                   .initial_state = state,
                                   .chunk_size = 8},
                                  path);
    CHECK(RelativeError(result.final_state, state) == 0);
  }
}

TEST_CASE("delta rule: with beta one the last key recalls its value exactly") {
  const auto k = RandomUnitRows({2, 70, 2, 8}, 1);
  const auto v = RandomNormal({2, 70, 2, 5}, 2);
  const auto state = DeltaRule({.q = k, .k = k, .v = v, .beta = at::ones({2, 70, 2}, at::kDouble)},
                               ExecutionPath::kFast)
                         .final_state;
  const auto recalled = at::einsum("bhk,bhkv->bhv", {k.select(1, 69), state});
  CHECK(RelativeError(recalled, v.select(1, 69)) < kFloat64Tolerance);
}

// Powers of the triangular matrix grow like binomial coefficients here: a solver that forms them
// loses every digit in fp32.
TEST_CASE("delta rule: equal keys are solved accurately in fp32") {
  const auto k = at::full({1, 128, 1, 4}, 0.5, at::kFloat);
  const auto v = RandomNormal({1, 128, 1, 4}, 1, at::kFloat);
  for (const double beta : {1.0, 0.5, 2.0}) {
    CAPTURE(beta);
    const RecurrenceArgs args{
        .q = k, .k = k, .v = v, .beta = at::full({1, 128, 1}, beta, at::kFloat)};
    CHECK(RelativeError(DeltaRule(args, ExecutionPath::kFast).o,
                        DeltaRule(args, ExecutionPath::kReference).o) < kFloat32Tolerance);
  }
}

TEST_CASE("delta rule: the write strength is required") {
  const auto x = RandomUnitRows({1, 2, 1, 3}, 1);
  CHECK_THROWS_WITH(DeltaRule({.q = x, .k = x, .v = x}, ExecutionPath::kFast),
                    Catch::Contains("beta is missing"));
}

constexpr device::DeviceLimits kHopper = {
    .num_multiprocessors = 132, .shared_memory_bytes = 232448, .has_warpgroups = true};
constexpr device::DeviceLimits kAmpere = {.num_multiprocessors = 108,
                                          .shared_memory_bytes = 166912};
constexpr device::DeviceLimits kAda = {.num_multiprocessors = 128, .shared_memory_bytes = 101376};

std::optional<delta_rule::DeltaRulePlan> Plan(
    std::int64_t batch_size, std::int64_t num_heads, std::int64_t head_k_dim,
    std::int64_t head_v_dim, const device::DeviceLimits& limits,
    device::OperandPrecision precision = device::OperandPrecision::kBf16) {
  return delta_rule::PlanDeltaRule({.batch_size = batch_size,
                                    .seq_len = 1000,
                                    .num_heads = num_heads,
                                    .head_k_dim = head_k_dim,
                                    .head_v_dim = head_v_dim,
                                    .precision = precision},
                                   limits);
}

TEST_CASE("delta rule plan: scans are as wide as the multiprocessors allow") {
  CHECK(Plan(8, 8, 128, 128, kHopper)->scan_columns == 64);  // 128 scans
  CHECK(Plan(256, 2, 64, 64, kHopper)->scan_columns == 64);  // 512
  CHECK(Plan(4, 8, 128, 128, kHopper)->scan_columns == 32);  // 64 of 64 columns, 128 of 32
  CHECK(Plan(1, 8, 128, 128, kHopper)->scan_columns == 16);  // 64 of 16 columns: no narrower one
  CHECK(Plan(256, 2, 64, 32, kHopper)->scan_columns == 32);
  CHECK(Plan(256, 2, 64, 16, kHopper)->scan_columns == 16);
}

TEST_CASE("delta rule plan: a second stage where it fits and a second block does not") {
  CHECK(Plan(8, 8, 128, 128, kHopper)->gradient_stages == 2);
  CHECK(Plan(8, 8, 128, 128, kAmpere)->gradient_stages == 1);
  CHECK(Plan(8, 8, 128, 64, kHopper)->gradient_stages == 1);
  CHECK(Plan(8, 8, 64, 128, kHopper)->gradient_stages == 1);
  CHECK(Plan(8, 8, 128, 128, kHopper, device::OperandPrecision::kFp32)->gradient_stages == 1);
}

TEST_CASE("delta rule plan: bf16 scans by warpgroups where the device has them") {
  CHECK(Plan(8, 8, 128, 128, kHopper)->uses_wgmma);
  CHECK(Plan(1, 1, 64, 64, kHopper)->uses_wgmma);
  CHECK(Plan(1, 1, 64, 256, kHopper)->uses_wgmma);
  CHECK(!Plan(1, 1, 32, 64, kHopper)->uses_wgmma);
  CHECK(!Plan(1, 1, 64, 32, kHopper)->uses_wgmma);
  CHECK(!Plan(8, 8, 128, 128, kHopper, device::OperandPrecision::kFp32)->uses_wgmma);
  CHECK(!Plan(8, 8, 128, 128, kAmpere)->uses_wgmma);
}

TEST_CASE("delta rule plan: fused where every multiprocessor has a sequence") {
  CHECK(Plan(256, 2, 64, 128, kHopper)->fused_multiprocessors == 132);
  CHECK(Plan(66, 2, 64, 64, kHopper)->fused_multiprocessors == 132);
  CHECK(Plan(65, 2, 64, 64, kHopper)->fused_multiprocessors == 0);
  CHECK(Plan(256, 2, 128, 128, kHopper)->fused_multiprocessors == 0);
  CHECK(Plan(256, 2, 64, 256, kHopper)->fused_multiprocessors == 0);
  CHECK(Plan(256, 2, 64, 64, kHopper, device::OperandPrecision::kFp32)->fused_multiprocessors == 0);
  CHECK(Plan(256, 2, 64, 64, kAmpere)->fused_multiprocessors == 0);
}

TEST_CASE("delta rule plan: sizes without device code, or beyond the shared memory, are refused") {
  for (const std::int64_t head_dim : {16, 32, 64, 128}) {
    CHECK(Plan(1, 1, head_dim, head_dim, kHopper));
    CHECK(Plan(1, 1, head_dim, head_dim, kHopper, device::OperandPrecision::kFp32));
    CHECK(Plan(1, 1, head_dim, 256, kAmpere));
  }
  CHECK(!Plan(1, 1, 24, 64, kHopper));
  CHECK(!Plan(1, 1, 256, 64, kHopper));
  CHECK(!Plan(1, 1, 64, 48, kHopper));
  CHECK(!Plan(1, 1, 64, 96, kHopper));
  CHECK(Plan(1, 1, 32, 32, kAda));
  CHECK(!Plan(1, 1, 128, 128, kAda));
}

TEST_CASE("delta rule plan: a refusal says why, a plan has a name that is listed") {
  const auto refusal = [](std::int64_t head_k_dim, std::int64_t head_v_dim,
                          const device::DeviceLimits& limits) {
    return delta_rule::PlanRefusal({.batch_size = 1,
                                    .seq_len = 64,
                                    .num_heads = 1,
                                    .head_k_dim = head_k_dim,
                                    .head_v_dim = head_v_dim},
                                   limits);
  };
  CHECK(refusal(64, 64, kHopper).empty());
  CHECK(refusal(24, 64, kHopper) == "head_k_dim 24 is none of 16, 32, 64, 128");
  CHECK(refusal(64, 48, kHopper) == "head_v_dim 48 is none of 16, 32 and no multiple of 64");
  CHECK_THAT(refusal(128, 128, kAda),
             Catch::Contains("bytes of shared memory") && Catch::EndsWith("the GPU has 101376"));
  std::vector<std::string> listed;
  for (const DevicePlan& plan : delta_rule::DevicePlans()) listed.push_back(plan.name);
  CHECK(listed == std::vector<std::string>{"fused", "chunk_scan_wgmma", "chunk_scan"});
  CHECK(NameOf(*Plan(256, 2, 64, 64, kHopper)) == "fused");
  CHECK(NameOf(*Plan(1, 2, 64, 64, kHopper)) == "chunk_scan_wgmma");
  CHECK(NameOf(*Plan(256, 2, 64, 64, kAmpere)) == "chunk_scan");
}

}  // namespace
}  // namespace mixerbench::kernels
