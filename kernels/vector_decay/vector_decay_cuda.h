// Vector decay on a CUDA device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/plan.h"
#include "kernels/recurrence.h"

namespace mixerbench::kernels::vector_decay {

// The core by device code, differentiable once; refused when the program was linked without CUDA or
// has no device code for these tensors (kernels/cuda/decay_autograd.h). Records the plan.
DeviceAttempt<RecurrenceResult> RunOnCuda(const RecurrenceArgs& args,
                                          const PreparedRecurrence& sizes);

}  // namespace mixerbench::kernels::vector_decay
