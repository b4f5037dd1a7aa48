// SPDX-License-Identifier: Apache-2.0
#include "reports/view/study_split.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/dotted_path.h"
#include "reports/summary/axis_keys.h"
#include "reports/view/cell_parts.h"
#include "reports/view/config_leaves.h"

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

// The paths at which these differ, sizes first.
std::vector<std::string> DifferingPaths(const std::vector<Leaves>& all) {
  std::map<std::string, std::set<std::string>> texts;
  for (const Leaves& leaves : all) {
    for (const auto& [path, text] : leaves) texts[path];
  }
  for (auto& [path, found] : texts) {
    for (const Leaves& leaves : all) {
      const auto leaf = leaves.find(path);
      found.insert(leaf == leaves.end() ? "" : leaf->second);
    }
  }
  std::vector<std::string> paths;
  for (const auto& [path, found] : texts) {
    if (found.size() > 1) paths.push_back(path);
  }
  std::stable_sort(paths.begin(), paths.end(), [](const std::string& a, const std::string& b) {
    return KeyLess(LastPart(a), LastPart(b));
  });
  return paths;
}

std::string At(const Leaves& leaves, const std::string& path) {
  const auto found = leaves.find(path);
  return found == leaves.end() ? "" : found->second;
}

// What tells each from the others: all sizes in which they differ, then only as much as it takes.
std::vector<std::string> TellingTexts(const std::vector<Leaves>& all,
                                      const std::vector<std::string>& paths) {
  std::vector<std::vector<std::string>> said(all.size());
  for (const std::string& path : paths) {
    const std::string key = LastPart(path);
    const std::set<std::vector<std::string>> distinct(said.begin(), said.end());
    if (distinct.size() == all.size() && !IsSizeKey(key)) break;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::string value = At(all[i], path);
      const std::string text = value.empty() ? "no " + key : PartText(key, value);
      // The splits of a task mostly agree: "64 tokens" of the test are those of training too.
      if (std::find(said[i].begin(), said[i].end(), text) == said[i].end()) said[i].push_back(text);
    }
  }
  std::vector<std::string> texts(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (const std::string& text : said[i]) texts[i] += (texts[i].empty() ? "" : ", ") + text;
  }
  return texts;
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
      return At(a, path) != At(b, path);
    });
    return differs != paths.end() && ValueLess(At(a, *differs), At(b, *differs));
  });
  const std::vector<std::string> texts = TellingTexts(all, paths);
  std::vector<TaskPart> parts;
  for (std::size_t i = 0; i < all.size(); ++i) {
    parts.push_back({task + " (" + texts[i] + ")", by_fixed.at(all[i])});
  }
  return parts;
}

}  // namespace mixerbench::reports
