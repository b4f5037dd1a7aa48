// SPDX-License-Identifier: Apache-2.0
#include "reports/summary/axis_keys.h"

#include <algorithm>
#include <vector>

#include "base/dotted_path.h"
#include "reports/summary/select.h"

namespace mixerbench::reports {
namespace {

void AddPaths(const Value* axes, std::vector<std::string>& paths) {
  if (axes == nullptr) return;
  if (axes->is_array()) {
    for (const Value& part : axes->as_array()) AddPaths(&part, paths);
  } else if (axes->is_object()) {
    for (const auto& [path, values] : axes->as_object()) paths.push_back(path);
  }
}

std::string KeyAmong(const std::string& path, const std::vector<std::string>& paths) {
  for (std::size_t dot = path.rfind('.'); dot != std::string::npos && dot > 0;
       dot = path.rfind('.', dot - 1)) {
    const std::string key = path.substr(dot + 1);
    const auto is_its = [&](const std::string& other) { return EndsWithPath(other, key); };
    if (std::count_if(paths.begin(), paths.end(), is_its) == 1) return key;
  }
  return path;
}

}  // namespace

std::map<std::string, std::string> AxisKeys(const Value& suite) {
  std::vector<std::string> paths;
  if (const Value* sweep = suite.Find("sweep")) {
    for (const char* kind : {"grid", "zip"}) AddPaths(sweep->Find(kind), paths);
  }
  std::map<std::string, std::string> keys;
  for (const std::string& path : paths) keys[path] = KeyAmong(path, paths);
  return keys;
}

std::set<std::string> ChosenKeys(const Value& suite) {
  const Value* merged = suite.Find("merged");
  const Array suites = merged && merged->is_array() ? merged->as_array() : Array{suite};
  std::set<std::string> chosen;
  for (const std::string& path : SelectedOver(suite)) {
    for (const Value& part : suites) {
      const auto keys = AxisKeys(part);
      const auto key = keys.find(path);
      chosen.insert(key == keys.end() ? LastPart(path) : key->second);
    }
  }
  return chosen;
}

}  // namespace mixerbench::reports
