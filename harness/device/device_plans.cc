// SPDX-License-Identifier: Apache-2.0
#include "harness/device/device_plans.h"

namespace mixerbench::harness {
namespace {

using kernels::DevicePlan;
using kernels::SizeRange;

std::string Capability(const DevicePlan& plan) {
  constexpr int kMin = kernels::kMinComputeCapability;
  return plan.needs_sm90 ? "9.0"
                         : ">=" + std::to_string(kMin / 10) + "." + std::to_string(kMin % 10);
}

Value RangeToValue(const SizeRange& range) {
  const auto bound = [](std::int64_t x) { return x > 0 ? Value(x) : Value(); };
  return Object{{"values", Array(range.values.begin(), range.values.end())},
                {"multiple_of", bound(range.multiple_of)},
                {"min", bound(range.multiple_of > 0 ? range.min : 0)},
                {"max", bound(range.max)}};
}

std::string Join(const std::vector<std::string>& words, const std::string& between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

// "16, 32 or a multiple of 64 up to 128".
std::string RangeToText(const SizeRange& range) {
  std::vector<std::string> values;
  for (const std::int64_t value : range.values) values.push_back(std::to_string(value));
  std::string text = Join(values, ", ");
  if (range.multiple_of == 0) return text;
  if (!text.empty()) text += " or ";
  text += range.multiple_of == 1 ? "any" : "a multiple of " + std::to_string(range.multiple_of);
  if (range.min > range.multiple_of) text += " from " + std::to_string(range.min);
  if (range.max > 0) text += " up to " + std::to_string(range.max);
  return text;
}

}  // namespace

Value DevicePlansToValue(const std::vector<DevicePlan>& plans) {
  Array array;
  for (const DevicePlan& plan : plans) {
    array.push_back(Object{{"plan", plan.name},
                           {"dtypes", Array(plan.dtypes.begin(), plan.dtypes.end())},
                           {"head_k_dim", RangeToValue(plan.head_k_dim)},
                           {"head_v_dim", RangeToValue(plan.head_v_dim)},
                           {"seq_len", RangeToValue(plan.seq_len)},
                           {"compute_capability", Capability(plan)},
                           {"when", plan.when.empty() ? Value() : Value(plan.when)}});
  }
  return array;
}

std::string DevicePlansToText(const std::vector<DevicePlan>& plans) {
  std::string text;
  for (const DevicePlan& plan : plans) {
    text += "  " + plan.name + ": " + Join(plan.dtypes, ", ") + "; head_k_dim " +
            RangeToText(plan.head_k_dim) + "; head_v_dim " + RangeToText(plan.head_v_dim) +
            "; seq_len " + RangeToText(plan.seq_len) + "; compute capability " + Capability(plan) +
            (plan.when.empty() ? "" : "; when " + plan.when) + "\n";
  }
  return text;
}

}  // namespace mixerbench::harness
