// The core of RWKV-5 and RWKV-6.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "models/blocks/matrix_state_mixer.h"

namespace mixerbench::models {

// A core of one state, "state" [H,K,V], that a token reads before it writes; its own write it reads
// weighted by `bonus` [H,K]. Records state, state_norm and bonus.
MatrixCore BonusState(const at::Tensor& bonus, const MatrixLayout& layout);

}  // namespace mixerbench::models
