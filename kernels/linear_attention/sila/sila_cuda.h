// SILA on a CUDA device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/linear_attention/recurrence.h"
#include "kernels/linear_attention/sila/sila.h"
#include "kernels/runtime/plan.h"

namespace mixerbench::kernels::sila {

// The core by device code, differentiable once. Refused when the program was linked without CUDA or
// has no device code for these tensors. Records the plan.
DeviceAttempt<SilaResult> RunOnCuda(const SilaArgs& args, const PreparedRecurrence& sizes);

}  // namespace mixerbench::kernels::sila
