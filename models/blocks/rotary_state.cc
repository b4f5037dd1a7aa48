// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/rotary_state.h"

#include "kernels/rope/rotary.h"

namespace mixerbench::models {

at::Tensor TurnedBack(const at::Tensor& state, std::int64_t seq_len, kernels::ExecutionPath path) {
  const at::Tensor columns = state.transpose(-1, -2);  // [B,H,N,K]
  const std::int64_t head_k_dim = columns.size(-1);
  const at::Tensor turned = kernels::RotateHalf(columns.reshape({state.size(0), 1, -1, head_k_dim}),
                                                -seq_len, head_k_dim, path);
  return turned.view(columns.sizes()).transpose(-1, -2).contiguous();
}

}  // namespace mixerbench::models
