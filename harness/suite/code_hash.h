// The code of this layer that every result depends on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace mixerbench::harness {

// SHA-256 of what "training" is made of: the code that trains, scores and times a cell, and what it
// uses of the other layers, units aside (generated).
std::string_view HarnessCodeHash(std::string_view part);

}  // namespace mixerbench::harness
