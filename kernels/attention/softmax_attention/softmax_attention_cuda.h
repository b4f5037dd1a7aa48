// Softmax attention on a CUDA device, by device code of this project.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/attention/softmax_attention/attention_dropout.h"
#include "kernels/attention/softmax_attention/prepare.h"
#include "kernels/runtime/plan.h"

namespace mixerbench::kernels::softmax_attention {

// o [B,T,H,V], differentiable once; refused (without a reason where
// ATen's is the faster one) when the program was linked without CUDA or has no
// device code for these tensors: it is for bf16, one head size, a positive scale, and
// as many keys as queries and what PlanAttention (softmax_attention_plan.h) takes, or up to
// MaxScoredPositions scored queries. Records the plan. Gradients of q, k and v that are columns of
// one matrix are columns of one matrix too.
DeviceAttempt<at::Tensor> RunOnCuda(const SoftmaxAttentionArgs& args, const Prepared& sizes);

// Fills `kept`, whose data `mask` points to, on its CUDA device. Throws std::logic_error when the
// program was linked without CUDA.
void FillOnCuda(const DropoutMask& mask, const at::Tensor& kept);

}  // namespace mixerbench::kernels::softmax_attention
