// What several mixers promise alike, as checks of a running test case.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/value.h"
#include "models/mixer.h"
#include "tests/support/mixer.h"

namespace mixerbench::testing {

// The parameters that a selective state space has besides its projections start as published:
// steps log-uniform in [1e-3, 0.1], A = -1, -2, ..., D = 1.
void CheckSelectiveStart(const MadeMixer& made);

// fp64 outputs and the final states of these names, by both paths, are these values, in row-major
// order; of complex states pairs.
void CheckOutputsAndState(const models::Mixer& mixer, const models::MixerInputs& inputs,
                          const std::vector<double>& y,
                          const std::map<std::string, std::vector<double>>& states);

// The same with the one state "state".
void CheckOutputsAndState(const models::Mixer& mixer, const models::MixerInputs& inputs,
                          const std::vector<double>& y, const std::vector<double>& state);

// With `conv_size` 0 a mixer does what a convolution that takes each token as it is does:
// activations stay. Of mixers with a parameter conv.weight.
void CheckOnlyConvolutionGoes(const RegisterMixers& registration);

// Sizes that do not fit are errors that name the option, of mixers with the options of
// vector_delta_layout.h; `make` builds one of d_model 16 from a config.
void CheckVectorDeltaErrors(const std::function<void(Object config)>& make);

// Of a delta rule with decays per channel (d_model 16, four value heads of eight channels, fp32):
// shapes and ranges of what it taps, and that what is erased goes on with a carried state.
void CheckChannelDeltaTaps(const models::Mixer& mixer);

// Of a mixer (d_model 16, fp64) whose log decays have the lower bound -5.
void CheckBoundedDecays(const models::Mixer& mixer);

}  // namespace mixerbench::testing
