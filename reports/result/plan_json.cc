// SPDX-License-Identifier: Apache-2.0
#include "reports/result/plan_json.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "reports/result/result_json.h"

namespace mixerbench::reports {
namespace {

Value RunToValue(const PhasePlan& plan) {
  return Object{{"phase", plan.phase},
                {"batch_size", plan.batch_size},
                {"seq_len", plan.seq_len},
                {"execution", plan.execution},
                {"eager_reason", TextOrNull(plan.eager_reason)}};
}

PhasePlan RunFromValue(const Value& value, const std::string& where) {
  const io::ObjectReader reader(value, where);
  return {.phase = reader.String("phase"),
          .batch_size = reader.Int("batch_size"),
          .seq_len = reader.Int("seq_len"),
          .execution = reader.String("execution"),
          .eager_reason = reader.StringOrEmpty("eager_reason"),
          .functions = {}};
}

Value FunctionsToValue(const std::vector<FunctionPlan>& functions) {
  Array array;
  for (const FunctionPlan& function : functions) {
    Array scopes(function.scopes.begin(), function.scopes.end());
    array.push_back(Object{{"function", function.function},
                           {"core", function.is_core},
                           {"scopes", std::move(scopes)},
                           {"forward", function.forward},
                           {"backward", TextOrNull(function.backward)},
                           {"reason", TextOrNull(function.reason)}});
  }
  return array;
}

std::string ScopeFromValue(const Value& value, const std::string& where) {
  const Value wrapped = Object{{"scope", value}};
  return io::ObjectReader(wrapped, where).String("scope");
}

FunctionPlan FunctionFromValue(const Value& value, const std::string& where) {
  const io::ObjectReader reader(value, where);
  return {.function = reader.String("function"),
          .is_core = reader.Bool("core"),
          .scopes = reader.List("scopes", ScopeFromValue),
          .forward = reader.String("forward"),
          .backward = reader.StringOrEmpty("backward"),
          .reason = reader.StringOrEmpty("reason")};
}

std::vector<PhasePlan> GroupFromValue(const Value& value, const std::string& where) {
  const io::ObjectReader reader(value, where);
  std::vector<PhasePlan> plans = reader.List("runs", RunFromValue);
  const auto functions = reader.List("functions", FunctionFromValue);
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
    group->second.push_back(RunToValue(plan));
  }
  Array array;
  for (auto& [functions, runs] : groups) {
    array.push_back(Object{{"runs", std::move(runs)}, {"functions", FunctionsToValue(*functions)}});
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

Value ParityToValue(const std::optional<Parity>& parity) {
  if (!parity) return {};
  return Object{{"passes", parity->passes},
                {"num_sequences", parity->num_sequences},
                {"num_tokens", parity->num_tokens},
                {"quantity", parity->quantity},
                {"error", NumberOrNull(parity->error)},
                {"tolerance", NumberOrNull(parity->tolerance)}};
}

std::optional<Parity> ParityFrom(const io::ObjectReader& reader, std::string_view key) {
  if (!reader.Has(key) || reader.IsNull(key)) return std::nullopt;
  const io::ObjectReader parity = reader.Nested(key);
  return Parity{.passes = parity.String("passes"),
                .num_sequences = parity.Int("num_sequences"),
                .num_tokens = parity.Int("num_tokens"),
                .quantity = parity.String("quantity"),
                .error = parity.NumberOrNan("error"),
                .tolerance = parity.NumberOrNan("tolerance")};
}

}  // namespace mixerbench::reports
