// Mesa on a CUDA device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "kernels/linear_attention/mesa/mesa_solve.h"
#include "kernels/runtime/plan.h"

namespace mixerbench::kernels::mesa {

// x of A x = b [M,C,K], as ConjugateGradients; not differentiable. Refused when the program was
// linked without CUDA or has no device code for these tensors.
DeviceAttempt<at::Tensor> SolveOnCuda(const MesaSystem& system, const at::Tensor& b,
                                      std::int64_t num_iterations);

}  // namespace mixerbench::kernels::mesa
