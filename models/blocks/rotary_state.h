// States that hold keys turned by their position.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "kernels/core.h"

namespace mixerbench::models {

// The state [B,H,K,N] as the next call sees it, whose first token stands at position 0: every key
// in it turned back by the length of this call. Only distances count, so no position is carried.
at::Tensor TurnedBack(const at::Tensor& state, std::int64_t seq_len, kernels::ExecutionPath path);

}  // namespace mixerbench::models
