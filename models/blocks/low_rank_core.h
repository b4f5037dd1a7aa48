// The core kernels/dplr as the core of a matrix-state mixer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "kernels/linear_attention/dplr/dplr.h"
#include "models/blocks/matrix_state_mixer.h"
#include "models/mixer.h"

namespace mixerbench::models {

// The factors of the transition from what projection and gates have left. May append to
// mixed.tokens what is added after the norm.
using LowRankFactors =
    std::function<kernels::DplrArgs(const kernels::RecurrenceArgs& args, Mixed& mixed)>;

// One state, "state" [H,K,V]. Taps: state, state_norm and erase [B,T,H], the norm of what b
// recalls.
MatrixCore LowRankCore(LowRankFactors factors, const MatrixLayout& layout);

}  // namespace mixerbench::models
