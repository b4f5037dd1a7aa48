// SPDX-License-Identifier: Apache-2.0
#include "reports/result/plan_json.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "reports/result/result_fields.h"

namespace mixerbench::reports {
namespace {

std::vector<PhasePlan> GroupFromValue(const Value& value, const std::string& where) {
  const io::ObjectReader reader(value, where);
  auto plans = internal::Read<Null::kNever, std::vector<PhasePlan>>(reader, "runs");
  const auto functions =
      internal::Read<Null::kNever, std::vector<FunctionPlan>>(reader, "functions");
  for (PhasePlan& plan : plans) plan.functions = functions;
  return plans;
}

auto Key(const PhasePlan& plan) { return std::tie(plan.phase, plan.batch_size, plan.seq_len); }

}  // namespace

Value PlansToValue(const std::vector<PhasePlan>& plans) {
  std::vector<std::pair<const std::vector<FunctionPlan>*, Array>> groups;
  for (const PhasePlan& plan : plans) {
    auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& candidate) {
      return *candidate.first == plan.functions;
    });
    if (group == groups.end()) group = groups.insert(group, {&plan.functions, {}});
    group->second.push_back(WriteFields(Bound<PhasePlan>::kFields, plan));
  }
  Array array;
  for (auto& [functions, runs] : groups) {
    array.push_back(Object{{"runs", std::move(runs)},
                           {"functions", internal::Write<Null::kNever>(*functions)}});
  }
  return array;
}

std::vector<PhasePlan> PlansFrom(const io::ObjectReader& reader, std::string_view key) {
  std::vector<PhasePlan> plans;
  if (!reader.Has(key)) return plans;
  for (auto& group : reader.List(key, GroupFromValue)) {
    std::move(group.begin(), group.end(), std::back_inserter(plans));
  }
  std::sort(plans.begin(), plans.end(),
            [](const PhasePlan& a, const PhasePlan& b) { return Key(a) < Key(b); });
  return plans;
}

void DropExecution(Value& plans) {
  if (!plans.is_array()) return;
  for (Value& group : plans.as_array()) {
    if (!group.is_object()) continue;
    const auto runs = group.as_object().find("runs");
    if (runs == group.as_object().end() || !runs->second.is_array()) continue;
    for (Value& run : runs->second.as_array()) {
      if (!run.is_object()) continue;
      run.as_object().erase("execution");
      run.as_object().erase("eager_reason");
    }
  }
}

}  // namespace mixerbench::reports
