// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/source_names.h"

#include <map>

#include "harness/cli/standard_input.h"

namespace mixerbench::harness {
namespace {

namespace fs = std::filesystem;

struct Place {
  std::string folder;
  std::string parent;
};

Place PlaceOf(const fs::path& path) {
  if (path == cli::kStandardInput) return {"stdin", ""};
  const fs::path whole = fs::weakly_canonical(path);
  const fs::path folder = whole.filename() == "report.json" ? whole.parent_path() : whole;
  return {folder.filename().string(), folder.parent_path().filename().string()};
}

std::map<std::string, int> Counts(const std::vector<std::string>& names) {
  std::map<std::string, int> counts;
  for (const std::string& name : names) ++counts[name];
  return counts;
}

}  // namespace

std::vector<std::string> SourceNames(const std::vector<fs::path>& paths) {
  std::vector<Place> places;
  std::vector<std::string> names;
  for (const fs::path& path : paths) {
    places.push_back(PlaceOf(path));
    names.push_back(places.back().folder);
  }
  const auto of_folders = Counts(names);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto& [folder, parent] = places[i];
    if (of_folders.at(folder) > 1 && !parent.empty()) names[i] = parent + "/" + folder;
  }
  const auto of_both = Counts(names);
  std::map<std::string, int> seen;
  for (std::string& name : names) {
    if (of_both.at(name) > 1) name += " (" + std::to_string(++seen[name]) + ")";
  }
  return names;
}

}  // namespace mixerbench::harness
