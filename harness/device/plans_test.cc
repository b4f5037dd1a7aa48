// SPDX-License-Identifier: Apache-2.0
#include "harness/device/plans.h"

#include "base/error.h"

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

using kernels::PlanRecord;

kernels::CoreRegistry Cores() {
  kernels::CoreRegistry cores("core");
  cores.Add("delta_rule", {});
  return cores;
}

TEST_CASE("plans: equal plans of several layers are one, cores are told from other functions") {
  const auto functions = ToFunctionPlans({{"", "embedding", "fused", "fused", ""},
                                          {"layers.0", "delta_rule", "fused", "fused", ""},
                                          {"layers.1", "delta_rule", "fused", "fused", ""},
                                          {"layers.2", "delta_rule", "aten_chunk", "", "why"}},
                                         Cores());
  REQUIRE(functions.size() == 3);
  CHECK_FALSE(functions[0].is_core);
  CHECK(functions[1].is_core);
  CHECK(functions[1].scopes == std::vector<std::string>{"layers.0", "layers.1"});
  CHECK(functions[2].forward == "aten_chunk");
  CHECK(functions[2].reason == "why");
}

TEST_CASE("plans: repeated work knows what ran, once it has") {
  GraphContext graphs(at::kCPU, /*use_graphs=*/true);
  RepeatedWork work(graphs, [] { kernels::RecordPlan("delta_rule", "fused", "fused"); });
  std::vector<reports::PhasePlan> plans;
  AddPlan({"test", 8, 64, &work}, Cores(), plans);
  CHECK(plans.empty());
  work.Run();
  AddPlan({"test", 8, 64, &work}, Cores(), plans);
  AddPlan({"test", 4, 64, &work}, Cores(), plans);
  AddPlan({"fwd", 8, 64, &work}, Cores(), plans);
  AddPlan({"test", 8, 64, &work}, Cores(), plans);  // another attempt
  REQUIRE(plans.size() == 3);
  CHECK(plans[0].phase == "fwd");
  CHECK(plans[1].batch_size == 4);
  CHECK(plans[2].execution == "eager");
  CHECK(plans[2].eager_reason.empty());  // the CPU has no graphs
  CHECK(plans[2].functions.size() == 1);
  CHECK(PathOf(plans) == "fast");
  CHECK(PathOf({}).empty());
}

TEST_CASE("plans: a reference is a reference") {
  GraphContext graphs(at::kCPU, /*use_graphs=*/true);
  RepeatedWork work(graphs, [] { kernels::RecordPlan("delta_rule", "reference", ""); });
  work.Run();
  std::vector<reports::PhasePlan> plans;
  AddPlan({"test", 8, 64, &work}, Cores(), plans);
  CHECK(PathOf(plans) == "reference");
}

TEST_CASE("plans: a core that falls back is refused with the reason, other functions may") {
  const std::vector<PlanRecord> fine = {{"layers.0", "delta_rule", "fused", "fused", ""},
                                        {"", "linear", "aten", "aten", "for bf16 inputs"}};
  CHECK_NOTHROW(RefuseFallbacks(fine, Cores()));
  const std::vector<PlanRecord> fallback = {
      {"layers.1", "delta_rule", "aten_chunk", "", "head_k_dim 24 is none of 16, 32, 64, 128"}};
  CHECK_THROWS_WITH(RefuseFallbacks(fallback, Cores()),
                    "--require-device-cores: delta_rule in layers.1 runs by aten_chunk: "
                    "head_k_dim 24 is none of 16, 32, 64, 128");
  reports::CellResult result;
  result.state = reports::CellState::kUnsupported;
  result.reason = "--require-device-cores: because";
  CHECK(IsRefusedFallback(result));
  result.reason = "fwd at 128: " + result.reason;
  CHECK(IsRefusedFallback(result));
  result.reason = "too long";
  CHECK_FALSE(IsRefusedFallback(result));
}

}  // namespace
}  // namespace mixerbench::harness
