// Softmax attention on a CUDA device, by device code of this project.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

#include "kernels/softmax_attention/prepare.h"

namespace mixerbench::kernels::softmax_attention {

// o [B,T,H,V], differentiable once; nullopt when the program was linked without CUDA or has no
// device code for these tensors: it is for bf16, as many keys as queries, one head size of 16, 32,
// 64 or 128, at most kMaxDeviceElements in a head, and no dropout.
std::optional<at::Tensor> RunOnCuda(const SoftmaxAttentionArgs& args, const Prepared& sizes);

// T K: 512 tokens of 64 channels. Longer sequences are left to ATen, whose kernels are made for
// them: the table in softmax_attention.md.
constexpr std::int64_t kMaxDeviceElements = 512 * 64;

}  // namespace mixerbench::kernels::softmax_attention
