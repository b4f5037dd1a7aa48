// Rotary position embedding, rotate-half pairing: channel i turns with channel i + rotary_dim/2.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "kernels/runtime/execution_path.h"

namespace mixerbench::kernels {

// x [B,T,H,K] -> the same shape and dtype; token t stands at position first_position + t. Channel
// pair i of the first rotary_dim (even, <= K) channels turns by position * base^(-2i/rotary_dim);
// the rest pass. Angles are formed in float64: float32 loses a hundredth of a radian at a million
// tokens. The gradient of x lies beside those of the tensors that x is a block of columns with
// (EmptyTogether). Source: arXiv 2104.09864, equation 34. Errors: std::logic_error when shapes
// disagree.
at::Tensor RotateHalf(const at::Tensor& x, std::int64_t first_position, std::int64_t rotary_dim,
                      ExecutionPath path = ExecutionPath::kFast, double base = 10000);

}  // namespace mixerbench::kernels
