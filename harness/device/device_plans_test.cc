// SPDX-License-Identifier: Apache-2.0
#include "harness/device/device_plans.h"

#include "io/json.h"

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

const std::vector<kernels::DevicePlan> kPlans = {
    {.name = "fused",
     .dtypes = {"bf16"},
     .head_k_dim = {.values = {16, 32}, .multiple_of = 64},
     .head_v_dim = {.multiple_of = 8, .min = 33, .max = 128},
     .seq_len = {.multiple_of = 1, .max = 256},
     .needs_sm90 = true,
     .when = "it rains"},
    {.name = "chunk_scan",
     .dtypes = {"tf32", "fp32"},
     .head_k_dim = {.values = {64}},
     .head_v_dim = {.multiple_of = 4}}};

TEST_CASE("device plans: ranges as JSON") {
  const Value value = DevicePlansToValue(kPlans);
  CHECK(value.as_array().size() == 2);
  CHECK(io::DumpJson(value.as_array()[0]) ==
        R"({"compute_capability":"9.0","dtypes":["bf16"],)"
        R"("head_k_dim":{"max":null,"min":1,"multiple_of":64,"values":[16,32]},)"
        R"("head_v_dim":{"max":128,"min":33,"multiple_of":8,"values":[]},)"
        R"("plan":"fused","seq_len":{"max":256,"min":1,"multiple_of":1,"values":[]},)"
        R"("when":"it rains"})");
}

TEST_CASE("device plans: ranges as text") {
  CHECK(DevicePlansToText(kPlans) ==
        "  fused: bf16; head_k_dim 16, 32 or a multiple of 64; head_v_dim a multiple of 8 from 33 "
        "up to 128; seq_len any up to 256; compute capability 9.0; when it rains\n"
        "  chunk_scan: tf32, fp32; head_k_dim 64; head_v_dim a multiple of 4; seq_len any; "
        "compute capability >=8.0\n");
}

}  // namespace
}  // namespace mixerbench::harness
