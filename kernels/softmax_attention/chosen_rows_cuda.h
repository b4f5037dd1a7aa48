// Softmax attention of chosen queries on a CUDA device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/plan.h"
#include "kernels/softmax_attention/prepare.h"

namespace mixerbench::kernels::softmax_attention {

// RunOnCuda (softmax_attention_cuda.h) for args.rows. Of q, k and v the gradients of k and v are
// columns of one matrix when these are.
DeviceAttempt<at::Tensor> RunChosenRowsOnCuda(const SoftmaxAttentionArgs& args,
                                              const Prepared& sizes);

}  // namespace mixerbench::kernels::softmax_attention
