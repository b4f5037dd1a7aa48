// SPDX-License-Identifier: Apache-2.0
#include "harness/python/module_state.h"

#include <algorithm>

namespace mixerbench::harness {

bool SeesAllTokensAgain(const models::State& state) {
  return state.tensors.contains(kModuleInputs) ||
         std::any_of(state.inner.begin(), state.inner.end(),
                     [](const auto& held) { return SeesAllTokensAgain(held.second); });
}

}  // namespace mixerbench::harness
