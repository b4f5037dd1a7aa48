// What the paths of SILA share: sizes, gates, and the chunked form of finite tokens.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/linear_attention/recurrence.h"
#include "kernels/linear_attention/sila/sila.h"

namespace mixerbench::kernels::sila {

// The checks of SilaArgs.
PreparedRecurrence PrepareSila(const SilaArgs& args);

// write_memory and forget_memory of every head for every head, [H,H,V], or undefined.
at::Tensor OfEveryHead(const at::Tensor& memory);

// ln phi(z).
at::Tensor LogForget(const at::Tensor& z);

// sigmoid(z), or `forced` where that is defined and not NaN.
at::Tensor WriteGate(const at::Tensor& z, const at::Tensor& forced);

at::Tensor InitialSilaState(const SilaArgs& args, const PreparedRecurrence& sizes);

// All tokens are finite. Differentiable once, by hand.
SilaResult SilaInChunks(const SilaArgs& args, const PreparedRecurrence& sizes);

}  // namespace mixerbench::kernels::sila
