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

// The same for args.rows (kernels/cuda/decay_rows_autograd.h): o [B,R,H,V].
std::optional<at::Tensor> RunRowsOnCuda(const RecurrenceArgs& args,
                                        const PreparedRecurrence& sizes);

// Whether RunRowsOnCuda takes R rows of each sequence and is faster than RunOnCuda, for tensors of
// the dtype and device of x [B,T,...].
bool PrefersRowsOnCuda(const at::Tensor& x, std::int64_t rows_per_sequence, std::int64_t head_k_dim,
                       std::int64_t head_v_dim);

}  // namespace mixerbench::kernels::vector_decay
