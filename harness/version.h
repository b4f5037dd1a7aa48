// Versions of this program. No torch here: the front program prints them too.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/value.h"

namespace mixerbench::harness {

inline constexpr const char* kVersion = "0.1.0";

// {"version", "build", "compiler", "code"}: `code` is the hash of the sources results depend on.
Value ToolVersion();

}  // namespace mixerbench::harness
