// SPDX-License-Identifier: Apache-2.0
#include "reports/view/study_split.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>

#include "reports/summary/axis_keys.h"
#include "reports/view/cell_parts.h"
#include "reports/view/config_leaves.h"
#include "reports/view/telling_texts.h"

namespace mixerbench::reports {
namespace {

// Keys in which groups of one part may differ: what a name of the task says, what a suite chooses
// among, and what goes with a mixer (attention learns positions where recurrences need none).
std::set<std::string> FreeKeys(const SweepReport& report,
                               const std::vector<const GroupSummary*>& groups) {
  std::set<std::string> free = {"sequence_mixer", "positions"};
  free.merge(ChosenKeys(report.config));
  for (const GroupSummary* group : groups) {
    for (const auto& [key, value] : PartsOf(*group)) free.insert(key);
  }
  return free;
}

Leaves FixedLeaves(const SweepReport& report, const GroupSummary& group,
                   const std::set<std::string>& free) {
  Leaves leaves = LeavesOf(report.cells[group.first_cell].config);
  std::erase_if(leaves, [&](const auto& leaf) {
    return std::any_of(free.begin(), free.end(),
                       [&](const std::string& key) { return HasPart(leaf.first, key); });
  });
  return leaves;
}

}  // namespace

std::vector<TaskPart> SplitTask(const SweepReport& report, const std::string& task,
                                const std::vector<const GroupSummary*>& groups) {
  if (report.config.Find("merged") == nullptr) return {{task, groups}};
  const std::set<std::string> free = FreeKeys(report, groups);
  std::map<Leaves, std::vector<const GroupSummary*>> by_fixed;
  for (const GroupSummary* group : groups) {
    by_fixed[FixedLeaves(report, *group, free)].push_back(group);
  }
  if (by_fixed.size() == 1) return {{task, groups}};
  std::vector<Leaves> all;
  for (const auto& [leaves, members] : by_fixed) all.push_back(leaves);
  const std::vector<std::string> paths = DifferingPaths(all);
  std::stable_sort(all.begin(), all.end(), [&](const Leaves& a, const Leaves& b) {
    const auto differs = std::find_if(paths.begin(), paths.end(), [&](const std::string& path) {
      return LeafAt(a, path) != LeafAt(b, path);
    });
    return differs != paths.end() && ValueLess(LeafAt(a, *differs), LeafAt(b, *differs));
  });
  const auto texts = TellingTexts(all, paths);
  std::vector<TaskPart> parts;
  for (std::size_t i = 0; i < all.size(); ++i) {
    parts.push_back({fmt::format("{} ({})", task, fmt::join(texts[i], ", ")), by_fixed.at(all[i])});
  }
  return parts;
}

}  // namespace mixerbench::reports
