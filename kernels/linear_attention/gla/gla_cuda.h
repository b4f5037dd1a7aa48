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

// The recurrence whose decays are those of value channels, log_decay [B,T,H,V]:
//   S_t = S_{t-1} diag(exp(g_t)) + k_t v_t^T,   o_t = scale * S_t^T q_t,
// differentiable once, as above; the keys of gated slot attention, as which it records its plan.
// The same scans with their axes exchanged (kernels/linear_attention/scan/decay_scan.md), for K and
// V up to 128, multiples of 4. fp32 tensors, products as exact as these.
DeviceAttempt<RecurrenceResult> RunByValueOnCuda(const RecurrenceArgs& args,
                                                 const PreparedRecurrence& sizes);

}  // namespace mixerbench::kernels::gla
