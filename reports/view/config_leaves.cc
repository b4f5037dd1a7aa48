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
    if (EndsWithPath(path, key) && !HasPart(path, "sequence_mixer")) return text;
  }
  return "";
}

bool HasPart(const std::string& path, const std::string& key) {
  return ("." + path + ".").find("." + key + ".") != std::string::npos;
}

std::string ConfigText(const Value& config, const std::string& path) {
  const Value* at = &config;
  for (std::size_t start = 0; start <= path.size() && at != nullptr;) {
    const std::size_t dot = std::min(path.find('.', start), path.size());
    const std::string key = path.substr(start, dot - start);
    if (at->is_array()) {
      at = at->as_array().empty() ? nullptr : &at->as_array().front();
      if (at != nullptr) at = at->Find(key);
    } else {
      at = at->Find(key);
    }
    start = dot + 1;
  }
  if (at == nullptr || at->is_null()) return "";
  return io::ValueText(*at);
}

std::vector<Object> SegmentsOf(const Value& config, const char* split) {
  const Value* const task = config.Find("task");
  const Value* const segments = task ? task->Find(split) : nullptr;
  std::vector<Object> found;
  if (!segments || !segments->is_array()) return found;
  for (const Value& segment : segments->as_array()) {
    if (segment.is_object()) found.push_back(segment.as_object());
  }
  return found;
}

std::vector<double> NumbersOf(const std::vector<Object>& segments, const std::string& name) {
  std::vector<double> numbers;
  for (const Object& segment : segments) {
    const auto found = segment.find(name);
    if (found != segment.end() && found->second.is_number()) {
      numbers.push_back(found->second.as_double());
    }
  }
  return numbers;
}

}  // namespace mixerbench::reports
