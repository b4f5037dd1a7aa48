// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/matrix_heads.h"

#include <ATen/ops/zeros.h>

#include "models/blocks/dtype.h"

namespace mixerbench::models {

State MatrixHeads::InitialState(std::int64_t batch_size, const at::Tensor& weight,
                                const std::optional<ShortConvolution>& conv) const {
  State state;
  state["state"] = at::zeros({batch_size, num_heads, head_k_dim, head_v_dim},
                             AtLeastFloat(weight).options().requires_grad(false));
  if (conv) state["conv"] = conv->InitialHistory(batch_size);
  return state;
}

StateSize MatrixHeads::state_size(const std::optional<ShortConvolution>& conv) const {
  StateSize size;
  size.recurrent = num_heads * head_k_dim * head_v_dim;
  if (conv) size.conv = conv->width() * conv->channels();
  return size;
}

}  // namespace mixerbench::models
