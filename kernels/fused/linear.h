// A linear layer in the dtype of its input, with parameters and their gradients in float32.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "kernels/core.h"

namespace mixerbench::kernels::fused {

// x [..., in], weight [out,in], bias [out] or undefined -> x weight^T + bias [..., out], dtype of
// x. On a GPU with float32 weights and bf16 inputs the gradients of weight and bias leave the
// matrix product in float32 instead of being rounded to bf16 in between; rows of the result and of
// its gradient are kept aligned to 16 bytes when `out` is no multiple of eight (tensor cores lose
// two thirds of their speed on others), so the result need not be dense. Errors: std::logic_error
// when shapes disagree.
at::Tensor Linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                  ExecutionPath path = ExecutionPath::kFast);

// The same in blocks of neighbouring columns, `sizes[i]` wide (columns.h). Prefer it to splitting
// the result of Linear: padding is then part of the gradient's matrix too.
std::vector<at::Tensor> LinearColumns(const at::Tensor& x, const at::Tensor& weight,
                                      const at::Tensor& bias, std::vector<std::int64_t> sizes,
                                      ExecutionPath path = ExecutionPath::kFast);

}  // namespace mixerbench::kernels::fused
