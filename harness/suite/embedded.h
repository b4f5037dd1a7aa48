// Files compiled into the program (generated from suites/ and collections/).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <utility>
#include <vector>

namespace mixerbench::harness {

// {"quickstart", text} for every suites/*.json, sorted by name.
std::vector<std::pair<std::string_view, std::string_view>> EmbeddedSuites();

// The same of collections/*.json.
std::vector<std::pair<std::string_view, std::string_view>> EmbeddedCollections();

}  // namespace mixerbench::harness
