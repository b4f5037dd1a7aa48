// Softmax attention on a CUDA device, by device code of this project.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

#include "kernels/softmax_attention/prepare.h"

namespace mixerbench::kernels::softmax_attention {

// o [B,T,H,V], differentiable once; nullopt when the program was linked without CUDA or has no device
// code for these tensors: it is for bf16, as many keys as queries, at most kMaxDeviceTokens, one head
// size of 16, 32, 64 or 128, and no dropout.
std::optional<at::Tensor> RunOnCuda(const SoftmaxAttentionArgs& args, const Prepared& sizes);

// Longer sequences are left to ATen, whose kernels are made for them.
constexpr std::int64_t kMaxDeviceTokens = 1024;

}  // namespace mixerbench::kernels::softmax_attention
