// The delta rule on a CUDA device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/linear_attention/recurrence.h"
#include "kernels/runtime/plan.h"

namespace mixerbench::kernels::delta_rule {

// The core by device code, differentiable once; refused when the program was linked without CUDA or
// has no device code for these tensors: another device, fp64 or fp16, or sizes that PlanDeltaRule
// refuses. Records the plan.
DeviceAttempt<RecurrenceResult> RunOnCuda(const RecurrenceArgs& args,
                                          const PreparedRecurrence& sizes);

}  // namespace mixerbench::kernels::delta_rule
