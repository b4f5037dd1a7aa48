// How a function that continues a linear layer forms the layer's product itself.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "kernels/core.h"
#include "kernels/fused/linear.h"

namespace mixerbench::kernels::fused {

// Forms x weight^T + bias [N,out] of x [N,in], weight [out,in] and bias [out] or undefined, bf16 on
// a GPU, outside autograd. Undefined when it does not take these tensors.
using ProductFunction = std::function<at::Tensor(const at::Tensor& x, const at::Tensor& weight,
                                                 const at::Tensor& bias)>;

// LinearColumns, whose fast path leaves the product that the first block is part of to
// `first_product` if that takes it. Gradients are those of LinearColumns.
std::vector<at::Tensor> LinearColumnsBy(const ProductFunction& first_product, const at::Tensor& x,
                                        const at::Tensor& weight, const at::Tensor& bias,
                                        const std::vector<ColumnBlock>& blocks,
                                        const RowSelection* rows, ExecutionPath path,
                                        const NarrowParameters& narrow);

// The weight or bias in bf16, with zeros after its last row up to padded_rows, which `copy` (of
// NarrowParameters) has unless it is undefined.
at::Tensor Narrowed(const at::Tensor& parameter, const at::Tensor& copy, std::int64_t padded_rows);

// Columns of the matrix that holds so many: its rows are aligned to 32 bytes.
constexpr std::int64_t PaddedWidth(std::int64_t columns) {
  constexpr std::int64_t kUnit = kNarrowPadding + 1;
  return (columns + kUnit - 1) / kUnit * kUnit;
}

// Whether a kernel can copy tiles of the matrix. Rows of an expanded one are in the same place.
bool HasTiles(const at::Tensor& matrix);

}  // namespace mixerbench::kernels::fused
