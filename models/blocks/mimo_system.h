// Diagonal state spaces with many inputs and many outputs: S5 and LRU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/core.h"

namespace mixerbench::models {

// x_t = exp(log_step) x_{t-1} + input u_t,   y_t = Re(output x_t);   P modes, D channels.
struct MimoSystem {
  at::Tensor log_step;  // [P] complex128
  at::Tensor input;     // [P,D] complex128
  at::Tensor output;    // [D,P] complex128
};

struct MimoResult {
  at::Tensor y;            // [B,T,D], dtype of u
  at::Tensor final_state;  // [B,P] complex
};

// u [B,T,D] in float32 or float64; initial_state [B,P] complex; undefined: zeros. Two real matrix
// products around a complex linear recurrence (kernels/linear_recurrence).
MimoResult RunMimo(const MimoSystem& system, const at::Tensor& u, const at::Tensor& initial_state,
                   kernels::ExecutionPath path);

}  // namespace mixerbench::models
