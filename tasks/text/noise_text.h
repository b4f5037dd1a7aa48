// The filler that RULER and the passkey tasks repeat.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace mixerbench::tasks {

inline constexpr std::string_view kNoiseLine =
    "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again.";

}  // namespace mixerbench::tasks
