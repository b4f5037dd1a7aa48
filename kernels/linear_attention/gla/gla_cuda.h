// GLA on a CUDA device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/linear_attention/recurrence.h"
#include "kernels/runtime/plan.h"

namespace mixerbench::kernels::gla {

// The core by device code, differentiable once; refused when the program was linked without CUDA or
// has no device code for these tensors (kernels/linear_attention/scan/decay_autograd.h). Records
// the plan.
DeviceAttempt<RecurrenceResult> RunOnCuda(const RecurrenceArgs& args,
                                          const PreparedRecurrence& sizes);

}  // namespace mixerbench::kernels::gla
