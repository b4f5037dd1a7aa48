// The difference between each token and the one before it, of which RWKV mixes a part into x.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace mixerbench::models {

struct ShiftedTokens {
  at::Tensor delta;  // x_{t-1} - x_t [B,T,C]
  at::Tensor last;   // [B,C], of the last token: what the next call needs (StateKind::kTokenShift)
};

// x [B,T,C]; `last` [B,C]: the token before the first, undefined: zeros.
ShiftedTokens ShiftTokens(const at::Tensor& x, const at::Tensor& last);

}  // namespace mixerbench::models
