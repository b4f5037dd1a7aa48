// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/mesa/mesa_plan.h"

#include <string>

namespace mixerbench::kernels::mesa {

const std::vector<DevicePlan>& DevicePlans() {
  static const std::vector<DevicePlan> plans = {
      {.name = std::string(kConjugateGradientPlan),
       .dtypes = {"bf16", "tf32", "fp32"},
       .head_k_dim = {.multiple_of = 1, .max = kMaxKeys},
       .head_v_dim = {.multiple_of = 1},
       .when = "solves the systems in fp32; all else is ATen's products"}};
  return plans;
}

}  // namespace mixerbench::kernels::mesa
