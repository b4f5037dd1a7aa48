// Softmax attention of scored queries on a CUDA device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/attention/softmax_attention/prepare.h"
#include "kernels/runtime/plan.h"

namespace mixerbench::kernels::softmax_attention {

// RunOnCuda (softmax_attention_cuda.h) for args.scored. Of q, k and v the gradients of k and v are
// columns of one matrix when these are.
DeviceAttempt<at::Tensor> RunScoredPositionsOnCuda(const SoftmaxAttentionArgs& args,
                                                   const Prepared& sizes);

}  // namespace mixerbench::kernels::softmax_attention
