// The softmax of each token over itself and all earlier ones, channel by channel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/core.h"

namespace mixerbench::models::abc {

struct CumulativeSoftmaxResult {
  at::Tensor writes;      // s_t = exp(u_t) / Z_t, [B,T,H,M]
  at::Tensor log_decay;   // g_t = log(Z_{t-1} / Z_t) <= 0; 0 for the first token of all
  at::Tensor final_sums;  // Z after the last token [B,H,M]
};

// u [B,T,H,M], float32 or float64, bounded so that sums of its exponentials are numbers;
// Z_t = sums + sum_{r <= t} exp(u_r). initial_sums [B,H,M]; undefined: zeros. On the reference path
// token by token, else in a few scans over time, with a backward pass of its own.
CumulativeSoftmaxResult CumulativeSoftmax(const at::Tensor& u, const at::Tensor& initial_sums,
                                          kernels::ExecutionPath path);

}  // namespace mixerbench::models::abc
