// Heads times one number each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/runtime/execution_path.h"

namespace mixerbench::kernels {

// x * scale, or base + x * scale: x and base [...,H,D] in any floating dtype; scale [...,H], one of
// each row, or [H], one of each head, float32 at least -> [...,H,D], dtype of x, rounded once.
// The fast path on a GPU takes a scale in float32 and D of 8, 16, ... 256, a power of two, and is
// the reference otherwise. Cost: reads x and base and writes the result once; backward reads x and
// the gradient and writes that of x.
at::Tensor ScaleHeads(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& base = {},
                      ExecutionPath path = ExecutionPath::kFast);

}  // namespace mixerbench::kernels
