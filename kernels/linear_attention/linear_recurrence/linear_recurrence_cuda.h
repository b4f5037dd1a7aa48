// The linear recurrence on a CUDA device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/linear_attention/linear_recurrence/linear_recurrence.h"
#include "kernels/runtime/plan.h"

namespace mixerbench::kernels::linear_recurrence {

// The core by device code, differentiable once; `dtype` is what Prepare returned. Refused when the
// program was linked without CUDA or has no device code for these tensors. Records the plan.
DeviceAttempt<LinearRecurrenceResult> RunOnCuda(const LinearRecurrenceArgs& args,
                                                at::ScalarType dtype);

}  // namespace mixerbench::kernels::linear_recurrence
