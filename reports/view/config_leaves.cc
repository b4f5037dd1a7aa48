// SPDX-License-Identifier: Apache-2.0
#include "reports/view/config_leaves.h"

#include <algorithm>
#include <vector>

#include "base/dotted_path.h"
#include "io/json.h"

namespace mixerbench::reports {
namespace {

using Texts = std::map<std::string, std::vector<std::string>>;

void Collect(const Value& value, const std::string& path, Texts& texts) {
  if (value.is_object()) {
    for (const auto& [key, member] : value.as_object()) {
      Collect(member, path.empty() ? key : path + "." + key, texts);
    }
  } else if (value.is_array()) {
    for (const Value& item : value.as_array()) Collect(item, path, texts);
  } else {
    std::vector<std::string>& known = texts[path];
    const std::string text = io::ValueText(value);
    if (std::find(known.begin(), known.end(), text) == known.end()) known.push_back(text);
  }
}

}  // namespace

Leaves LeavesOf(const Value& config) {
  Texts texts;
  Collect(config, "", texts);
  Leaves leaves;
  for (const auto& [path, values] : texts) {
    std::string& joined = leaves[path];
    for (const std::string& value : values) joined += (joined.empty() ? "" : "/") + value;
  }
  return leaves;
}

std::string LeafText(const Leaves& leaves, const std::string& key) {
  for (const auto& [path, text] : leaves) {
    if (LastPart(path) == key && !HasPart(path, "sequence_mixer")) return text;
  }
  return "";
}

bool HasPart(const std::string& path, const std::string& key) {
  return ("." + path + ".").find("." + key + ".") != std::string::npos;
}

}  // namespace mixerbench::reports
