// Column blocks of one projection, without copies on the way back.
//
// A projection gives q, k, v and gates as neighbouring columns of one matrix. Reading them as views
// costs nothing; their gradients, though, would be copied together (or worse, added up in full
// width). The node of SplitColumns therefore owns one matrix for the gradient while a backward pass
// runs. EmptyTogether gives each function that took columns its place in it, and SplitColumns
// passes on the whole: it copies the gradients that lie elsewhere and writes zeros where there is
// none.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "kernels/runtime/execution_path.h"

namespace mixerbench::kernels {

// Views of neighbouring columns of x [..., C], `sizes[i]` wide; x itself when one block is all of
// it. Columns after the last block are padding: nobody reads them, their gradient is zero. The
// views must not be written to. Columns of columns lie in the same gradient.
// On the reference path they are views and no more.
std::vector<at::Tensor> SplitColumns(const at::Tensor& x, const std::vector<std::int64_t>& sizes,
                                     ExecutionPath path = ExecutionPath::kFast);

// Whether `x`, as a backward pass gets it from BackwardArgs::saved or before, is a view of columns
// that SplitColumns recorded.
bool AreColumns(const at::Tensor& x);

// Uninitialised tensors of the sizes and dtypes of `like`, for their gradients in a backward pass.
// Of views of columns that SplitColumns recorded ([B,T,H,K] and any other shape of whole rows) they
// are the places in its gradient unless some of `like` overlap, others are dense. All of each must
// be written.
std::vector<at::Tensor> EmptyTogether(const std::vector<at::Tensor>& like);

// EmptyTogether({like}) when the caller also writes the padding, if that comes next: `padding`
// columns of zeros after each row of `columns`.
struct PaddedColumns {
  at::Tensor columns;
  std::int64_t padding = 0;
};
PaddedColumns EmptyWithPadding(const at::Tensor& like);

}  // namespace mixerbench::kernels
