// Files compiled into the program (generated from harness/suites/).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <utility>
#include <vector>

namespace mixerbench::harness {

// {"quickstart", text} for every suites/*.json, sorted by name.
std::vector<std::pair<std::string_view, std::string_view>> EmbeddedSuites();

// SHA-256 of the sources that every result depends on besides the units themselves: shared model
// code, blocks, and the training, data and evaluation code of the harness.
std::string_view SharedCodeHash();

}  // namespace mixerbench::harness
