// SPDX-License-Identifier: Apache-2.0
#include "reports/view/telling_texts.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/dotted_path.h"
#include "reports/view/cell_parts.h"

namespace mixerbench::reports {

std::string LeafAt(const Leaves& leaves, const std::string& path) {
  const auto found = leaves.find(path);
  return found == leaves.end() ? "" : found->second;
}

std::vector<std::string> DifferingPaths(const std::vector<Leaves>& all) {
  std::map<std::string, std::set<std::string>> texts;
  for (const Leaves& leaves : all) {
    for (const auto& [path, text] : leaves) texts[path];
  }
  for (auto& [path, found] : texts) {
    for (const Leaves& leaves : all) found.insert(LeafAt(leaves, path));
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

std::vector<std::vector<std::string>> TellingTexts(const std::vector<Leaves>& all,
                                                   const std::vector<std::string>& paths) {
  std::vector<std::vector<std::string>> said(all.size());
  const auto num_told = [](const std::vector<std::vector<std::string>>& texts) {
    return std::set<std::vector<std::string>>(texts.begin(), texts.end()).size();
  };
  for (const std::string& path : paths) {
    const std::string key = LastPart(path);
    auto more = said;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::string value = LeafAt(all[i], path);
      const std::string text = value.empty() ? "no " + key : PartText(key, value);
      // The splits of a task mostly agree: "64 tokens" of the test are those of training too.
      if (std::find(more[i].begin(), more[i].end(), text) == more[i].end()) more[i].push_back(text);
    }
    if (IsSizeKey(key) || num_told(more) > num_told(said)) said = std::move(more);
  }
  return said;
}

}  // namespace mixerbench::reports
