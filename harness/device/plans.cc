// SPDX-License-Identifier: Apache-2.0
#include "harness/device/plans.h"

#include <algorithm>
#include <string_view>
#include <tuple>

#include "base/error.h"

namespace mixerbench::harness {
namespace {

constexpr std::string_view kFlag = "--require-device-cores";

}  // namespace

std::vector<reports::FunctionPlan> ToFunctionPlans(const std::vector<kernels::PlanRecord>& records,
                                                   const kernels::CoreRegistry& cores) {
  std::vector<reports::FunctionPlan> functions;
  for (const kernels::PlanRecord& record : records) {
    const auto same = [&](const reports::FunctionPlan& plan) {
      return plan.function == record.function && plan.forward == record.forward &&
             plan.backward == record.backward && plan.reason == record.reason;
    };
    auto found = std::find_if(functions.begin(), functions.end(), same);
    if (found == functions.end()) {
      found = functions.insert(found, {.function = record.function,
                                       .is_core = cores.Contains(record.function),
                                       .scopes = {},
                                       .forward = record.forward,
                                       .backward = record.backward,
                                       .reason = record.reason});
    }
    found->scopes.push_back(record.scope);
  }
  return functions;
}

void AddPlan(const PhaseWork& ran, const kernels::CoreRegistry& cores,
             std::vector<reports::PhasePlan>& plans) {
  if (!ran.work->has_run()) return;
  reports::PhasePlan plan{.phase = ran.phase,
                          .batch_size = ran.batch_size,
                          .seq_len = ran.seq_len,
                          .execution = ran.work->is_graph() ? "graph" : "eager",
                          .eager_reason = ran.work->eager_reason(),
                          .functions = ToFunctionPlans(ran.work->plans(), cores)};
  const auto key = [](const reports::PhasePlan& x) {
    return std::tie(x.phase, x.batch_size, x.seq_len);
  };
  const auto place = std::lower_bound(
      plans.begin(), plans.end(), plan,
      [&](const reports::PhasePlan& a, const reports::PhasePlan& b) { return key(a) < key(b); });
  if (place != plans.end() && key(*place) == key(plan)) {
    *place = std::move(plan);
  } else {
    plans.insert(place, std::move(plan));
  }
}

std::string PathOf(const std::vector<reports::PhasePlan>& plans) {
  if (plans.empty()) return {};
  for (const reports::PhasePlan& plan : plans) {
    for (const reports::FunctionPlan& function : plan.functions) {
      if (function.forward == kernels::kReferencePlan) return "reference";
    }
  }
  return "fast";
}

void RefuseFallbacks(const std::vector<kernels::PlanRecord>& records,
                     const kernels::CoreRegistry& cores) {
  for (const kernels::PlanRecord& record : records) {
    if (record.reason.empty() || !cores.Contains(record.function)) continue;
    throw ConfigError(kFlag, record.function + " in " + record.scope + " runs by " +
                                 record.forward + ": " + record.reason);
  }
}

bool IsRefusedFallback(const reports::CellResult& result) {
  return result.state == reports::CellState::kUnsupported &&
         result.reason.find(kFlag) != std::string::npos;  // after the row that it is of, if one
}

}  // namespace mixerbench::harness
