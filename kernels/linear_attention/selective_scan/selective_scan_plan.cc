// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/selective_scan/selective_scan_plan.h"

#include <string>

#include "kernels/runtime/plan.h"

namespace mixerbench::kernels::selective_scan {

const std::vector<DevicePlan>& DevicePlans() {
  static const std::vector<DevicePlan> plans = {
      {.name = std::string(kChunkScanPlan),
       .dtypes = {"bf16", "tf32", "fp32"},
       .head_k_dim = {.multiple_of = 1, .max = kMaxStateSize},
       .head_v_dim = {.multiple_of = 1},
       .when = {}}};
  return plans;
}

}  // namespace mixerbench::kernels::selective_scan
