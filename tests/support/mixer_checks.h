// What several mixers promise alike, as checks of a running test case.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/mixer.h"
#include "tests/support/mixer.h"

namespace mixerbench::testing {

// The parameters that a selective state space has besides its projections start as published:
// steps log-uniform in [1e-3, 0.1], A = -1, -2, ..., D = 1.
void CheckSelectiveStart(const MadeMixer& made);

// Of a delta rule with decays per channel (d_model 16, four value heads of eight channels, fp32):
// shapes and ranges of what it taps, and that what is erased goes on with a carried state.
void CheckChannelDeltaTaps(const models::Mixer& mixer);

// Of a mixer (d_model 16, fp64) whose log decays have the lower bound -5.
void CheckBoundedDecays(const models::Mixer& mixer);

}  // namespace mixerbench::testing
