// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/device_plan.h"

#include "tests/support/catch2.h"

namespace mixerbench::kernels {
namespace {

TEST_CASE("device plan: a size is in a range, or the reason says why not") {
  const SizeRange multiples = {.multiple_of = 8, .max = 128};
  CHECK(Refusal(multiples, "head_k_dim", 128).empty());
  CHECK(Refusal(multiples, "head_k_dim", 12) == "head_k_dim 12 is no multiple of 8");
  CHECK(Refusal(multiples, "head_v_dim", 256) == "head_v_dim 256 is above 128");
  CHECK(Refusal({.multiple_of = 8, .min = 33}, "head_v_dim", 32) == "head_v_dim 32 is below 33");
  const SizeRange listed = {.values = {16, 32}};
  CHECK(Refusal(listed, "head_k_dim", 32).empty());
  CHECK(Refusal(listed, "head_k_dim", 24) == "head_k_dim 24 is none of 16, 32");
  const SizeRange both = {.values = {16, 32}, .multiple_of = 64};
  CHECK(Refusal(both, "head_v_dim", 4096).empty());
  CHECK(Refusal(both, "head_v_dim", 48) == "head_v_dim 48 is none of 16, 32 and no multiple of 64");
}

TEST_CASE("device plan: the most general plan of a dtype gives the reason") {
  const std::vector<DevicePlan> plans = {
      {.name = "fused", .dtypes = {"bf16"}, .head_k_dim = {{64}}, .head_v_dim = {{64}}},
      {.name = "chunk_scan",
       .dtypes = {"bf16", "fp32"},
       .head_k_dim = {.multiple_of = 8},
       .head_v_dim = {.multiple_of = 8}}};
  CHECK(Refusal(plans, "bf16", 64, 64).empty());
  CHECK(Refusal(plans, "bf16", 24, 8).empty());
  CHECK(Refusal(plans, "bf16", 24, 12) == "head_v_dim 12 is no multiple of 8");
  CHECK(Refusal(plans, "fp64", 64, 64) == "no device code for fp64");
}

}  // namespace
}  // namespace mixerbench::kernels
