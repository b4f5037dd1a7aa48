// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/linear_recurrence/linear_recurrence_plan.h"

#include <string>

#include "kernels/runtime/plan.h"

namespace mixerbench::kernels::linear_recurrence {

const std::vector<DevicePlan>& DevicePlans() {
  static const std::vector<DevicePlan> plans = {{.name = std::string(kChunkScanPlan),
                                                 .dtypes = {"bf16", "tf32", "fp32"},
                                                 .head_k_dim = {.multiple_of = 1},
                                                 .head_v_dim = {.multiple_of = 1},
                                                 .when = {}}};
  return plans;
}

}  // namespace mixerbench::kernels::linear_recurrence
