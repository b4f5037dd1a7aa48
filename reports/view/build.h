// Which builds made the results of a report, as far as they say.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "reports/summary/sweep_report.h"

namespace mixerbench::reports {

// What all cells of one build have in common.
struct Build {
  std::string commit;  // empty where none is recorded
  std::string code;    // the hash of all code, which old results have, or of the harness
  auto operator<=>(const Build&) const = default;
};
Build BuildOf(const CellResult& cell);

// Whether a result has a hash of the code that made it.
bool HasCode(const CellResult& cell);

// The code ids of the same experiment by builds that are otherwise alike: several where a mixer or
// a task was changed without a commit.
using CodeIds = std::map<std::pair<Build, std::string>, std::set<std::string>>;
CodeIds CodeIdsOf(const SweepReport& report);

// How many builds the results of a report are of, at least.
std::size_t CountBuilds(const SweepReport& report);

}  // namespace mixerbench::reports
