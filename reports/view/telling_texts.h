// How configs that differ are told from each other in few words.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "reports/view/config_leaves.h"

namespace mixerbench::reports {

// The text at a path; empty where there is none.
std::string LeafAt(const Leaves& leaves, const std::string& path);

// The paths at which these differ, sizes first.
std::vector<std::string> DifferingPaths(const std::vector<Leaves>& all);

// What tells each from the others, by these paths in order: all sizes in which they differ, then
// only as much as it takes.
std::vector<std::vector<std::string>> TellingTexts(const std::vector<Leaves>& all,
                                                   const std::vector<std::string>& paths);

}  // namespace mixerbench::reports
