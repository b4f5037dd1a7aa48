// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/sila/sila_plan.h"

#include <string>

namespace mixerbench::kernels::sila {

const std::vector<DevicePlan>& DevicePlans() {
  static const std::vector<DevicePlan> plans = {
      {.name = std::string(kTokenScanPlan),
       .dtypes = {"bf16", "tf32", "fp32"},
       .head_k_dim = {.multiple_of = 1, .max = kMaxKeys},
       .head_v_dim = {.multiple_of = 1, .max = kMaxValues},
       .when = "the gates of a head see what that head recalls alone"}};
  return plans;
}

}  // namespace mixerbench::kernels::sila
