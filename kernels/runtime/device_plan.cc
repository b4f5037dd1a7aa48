// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/device_plan.h"

#include <algorithm>

namespace mixerbench::kernels {
namespace {

std::string Refusal(const DevicePlan& plan, std::int64_t head_k_dim, std::int64_t head_v_dim) {
  std::string reason = Refusal(plan.head_k_dim, "head_k_dim", head_k_dim);
  return reason.empty() ? Refusal(plan.head_v_dim, "head_v_dim", head_v_dim) : reason;
}

}  // namespace

bool SizeRange::Contains(std::int64_t size) const {
  if (std::find(values.begin(), values.end(), size) != values.end()) return true;
  return multiple_of > 0 && size % multiple_of == 0 && size >= min && (max == 0 || size <= max);
}

std::string Refusal(const SizeRange& range, std::string_view name, std::int64_t size) {
  if (range.Contains(size)) return {};
  const std::string start = std::string(name) + " " + std::to_string(size);
  if (range.values.empty()) {
    if (size < range.min) return start + " is below " + std::to_string(range.min);
    if (range.max > 0 && size > range.max) return start + " is above " + std::to_string(range.max);
    return start + " is no multiple of " + std::to_string(range.multiple_of);
  }
  std::string list;
  for (const std::int64_t value : range.values) {
    list += (list.empty() ? "" : ", ") + std::to_string(value);
  }
  return start + " is none of " + list +
         (range.multiple_of > 0 ? " and no multiple of " + std::to_string(range.multiple_of) : "");
}

std::string Refusal(const std::vector<DevicePlan>& plans, std::string_view dtype,
                    std::int64_t head_k_dim, std::int64_t head_v_dim) {
  std::string reason = "no device code for " + std::string(dtype);
  for (const DevicePlan& plan : plans) {
    if (std::find(plan.dtypes.begin(), plan.dtypes.end(), dtype) == plan.dtypes.end()) continue;
    reason = Refusal(plan, head_k_dim, head_v_dim);
    if (reason.empty()) return {};
  }
  return reason;
}

}  // namespace mixerbench::kernels
