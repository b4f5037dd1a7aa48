// A linear layer whose first columns go through a short convolution.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "kernels/core.h"
#include "kernels/fused/linear.h"
#include "kernels/fused/short_convolution.h"

namespace mixerbench::kernels::fused {

struct ConvolvedColumns {
  at::Tensor convolved;             // [B,T,C], dtype of x
  std::vector<at::Tensor> columns;  // of LinearColumns; the first C before the convolution
};

// LinearColumns of x [B,T,in], and ShortConvolution of its first block; `convolution` without x,
// and that block for all rows. On a GPU of compute capability 9.0 the fast path computes both in
// one kernel where LinearConvolutionTakes the sizes and there is no bias after the convolution:
// the projection is written, for the backward pass, but not read. Results and gradients have the
// bits that the two functions give. Errors: std::logic_error when shapes disagree.
ConvolvedColumns LinearConvolution(const at::Tensor& x, const at::Tensor& weight,
                                   const at::Tensor& bias, const std::vector<ColumnBlock>& blocks,
                                   const ShortConvolutionArgs& convolution,
                                   const RowSelection* rows = nullptr,
                                   ExecutionPath path = ExecutionPath::kFast,
                                   const NarrowParameters& narrow = {});

}  // namespace mixerbench::kernels::fused
