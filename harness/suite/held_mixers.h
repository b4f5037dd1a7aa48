// Which options of a mixer are mixers that it holds, told by the values that they have.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "base/value.h"

namespace mixerbench::harness {

inline bool IsMixer(const Value& option) { return option.Find("name") != nullptr; }

inline bool IsListOfMixers(const Value& option) {
  return option.is_array() &&
         std::any_of(option.as_array().begin(), option.as_array().end(), IsMixer);
}

}  // namespace mixerbench::harness
