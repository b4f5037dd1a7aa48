// Column blocks of one projection, without copies on the way back.
//
// A projection gives q, k, v and gates as neighbouring columns of one matrix. Reading them as views
// costs nothing; their gradients, though, would be copied together (or worse, added up in full
// width). SplitColumns takes gradients that already lie side by side in one buffer as they are, and
// EmptyTogether is how a backward pass makes them so.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace mixerbench::kernels::fused {

// Views of neighbouring columns of x [..., C], `sizes[i]` wide; the sizes sum to C. The views must
// not be written to.
std::vector<at::Tensor> SplitColumns(const at::Tensor& x, const std::vector<std::int64_t>& sizes);

// Uninitialised tensors of the sizes and dtypes of `like`. Where those of one storage are blocks of
// columns of one matrix (one distance between rows, whatever the shape of a row: [B,T,H,K] is
// fine), so are the results, at the same places; other columns of the new matrix are left
// uninitialised. Otherwise each is dense.
std::vector<at::Tensor> EmptyTogether(const std::vector<at::Tensor>& like);

}  // namespace mixerbench::kernels::fused
