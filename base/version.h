// Versions of this program. No torch here: the front program prints them too.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/value.h"

namespace mixerbench {

inline constexpr const char* kVersion = "0.1.0";

// {"version", "build", "compiler", "git_commit", "git_dirty"}; null where the build was not told.
Value ToolVersion();

}  // namespace mixerbench
