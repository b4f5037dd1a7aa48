// "did you mean": the closest known name to a misspelt one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mixerbench {

// Levenshtein distance with adjacent transpositions counted as one edit.
int EditDistance(std::string_view a, std::string_view b);

// The candidate nearest to `name`, or "" when none is close enough to be a likely typo
// (more than a third of the longer name's characters differ).
std::string ClosestName(std::string_view name, const std::vector<std::string>& candidates);

// "unknown <kind> 'nmae' (did you mean 'name'?); known: a, b, c"
std::string UnknownName(std::string_view kind, std::string_view name,
                        const std::vector<std::string>& known);

}  // namespace mixerbench
