// Some rows of a matrix, without atomics or sorting in the backward pass.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/layout/scored_positions.h"
#include "kernels/runtime/execution_path.h"

namespace mixerbench::kernels {

// x [..., D] seen as [N,D] -> [M,D]. Rows that are taken more than once get the gradient of their
// entry alone, so the others must have none.
// Cost: reads and writes M rows; backward reads M rows and writes N.
at::Tensor GatherRows(const at::Tensor& x, const ScoredPositions& selection,
                      ExecutionPath path = ExecutionPath::kFast);

// x[rows[i]] += source[i] for the inverse whose gradient a row gets: x [N,D], source [M,D] of one
// dtype. No gradients of its own: a part of backward passes. Cost: reads 2 M rows and writes M.
void AddRows(const at::Tensor& x, const at::Tensor& source, const ScoredPositions& selection);

}  // namespace mixerbench::kernels
