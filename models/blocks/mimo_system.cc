// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/mimo_system.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/imag.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/real.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>

#include "kernels/linear_attention/linear_recurrence/linear_recurrence.h"

namespace mixerbench::models {

MimoResult RunMimo(const MimoSystem& system, const at::Tensor& u, const at::Tensor& initial_state,
                   kernels::ExecutionPath path) {
  const at::ScalarType dtype = u.scalar_type();
  // Rows of real and imaginary parts by turns: the product is complex numbers in memory.
  const at::Tensor write =
      at::stack({at::real(system.input), at::imag(system.input)}, 1).flatten(0, 1).to(dtype);
  const at::Tensor written = at::matmul(u, write.t()).contiguous();  // [B,T,2P]
  const kernels::LinearRecurrenceResult states =
      kernels::LinearRecurrence({.x = at::view_as_complex(written.unflatten(-1, {-1, 2})),
                                 .log_decay = system.log_step,
                                 .initial_state = initial_state},
                                path);
  const at::Tensor read =
      at::stack({at::real(system.output), -at::imag(system.output)}, -1).flatten(1).to(dtype);
  return {at::matmul(at::view_as_real(states.h).flatten(2), read.t()), states.final_state};
}

}  // namespace mixerbench::models
