// The state of a Python module that has none of its own: all its inputs so far.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/state.h"

namespace mixerbench::harness {

inline constexpr char kModuleInputs[] = "module_inputs";  // [B,T,D], a cache

// Whether a state is one, or holds one: in pieces, such a module would see all earlier tokens again
// in each.
bool SeesAllTokensAgain(const models::State& state);

}  // namespace mixerbench::harness
