// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include "kernels/linear_attention/linear_recurrence/linear_recurrence.h"

namespace mixerbench::kernels {

LinearRecurrenceResult ReferenceLinearRecurrence(const LinearRecurrenceArgs& args) {
  const at::ScalarType dtype = linear_recurrence::Prepare(args);
  const at::Tensor decay = linear_recurrence::Decay(args.log_decay, dtype);
  const bool constant = decay.dim() == 1;
  const auto x = args.x.to(dtype).unbind(1);  // [B,C]
  std::vector<at::Tensor> decays;             // [B,C]
  if (!constant) decays = decay.unbind(1);
  at::Tensor state = args.initial_state.defined()
                         ? args.initial_state.to(dtype)
                         : at::zeros(x[0].sizes(), x[0].options().requires_grad(false));
  std::vector<at::Tensor> h;
  for (std::size_t t = 0; t < x.size(); ++t) {
    state = (constant ? decay : decays[t]) * state + x[t];
    h.push_back(state);
  }
  return {.h = at::stack(h, 1), .final_state = state};
}

}  // namespace mixerbench::kernels
