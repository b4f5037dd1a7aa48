// SPDX-License-Identifier: Apache-2.0
#include "reports/view/build.h"

#include <algorithm>

#include "reports/view/config_leaves.h"

namespace mixerbench::reports {

Build BuildOf(const CellResult& cell) {
  const std::string whole = ConfigText(cell.environment, "tool.code");
  return {.commit = ConfigText(cell.environment, "tool.git_commit"),
          .code = whole.empty() ? ConfigText(cell.code, "harness") : whole};
}

bool HasCode(const CellResult& cell) {
  return !cell.code_id.empty() || !ConfigText(cell.environment, "tool.code").empty();
}

CodeIds CodeIdsOf(const SweepReport& report) {
  CodeIds ids;
  for (const CellResult& cell : report.cells) {
    if (IsMissing(cell) || !cell.environment.is_object()) continue;  // nothing ran
    ids[{BuildOf(cell), cell.experiment_id}].insert(cell.code_id);
  }
  return ids;
}

std::size_t CountBuilds(const SweepReport& report) {
  std::map<Build, std::size_t> num_of;
  for (const auto& [of, ids] : CodeIdsOf(report)) {
    // Up to schema 1.2 no experiment has an id, and those of a report are not one.
    std::size_t& num = num_of[of.first];
    num = std::max(num, of.second.empty() ? 1 : ids.size());
  }
  std::size_t sum = 0;
  for (const auto& [build, num] : num_of) sum += num;
  return sum;
}

}  // namespace mixerbench::reports
