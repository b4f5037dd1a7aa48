// ATen's fused attention with the same bits twice.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace mixerbench::kernels::softmax_attention {

// Causal at::scaled_dot_product_attention of q, k, v [B,H,T,.]. Some of its CUDA kernels add up dq
// by atomics unless deterministic algorithms are demanded without exceptions. That is demanded
// while they are chosen and while they run, and then only: other functions of ATen refuse to run
// under it.
at::Tensor DeterministicSdpa(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             double scale);

}  // namespace mixerbench::kernels::softmax_attention
