// SPDX-License-Identifier: Apache-2.0
#include "harness/suite/setting.h"

#include <algorithm>
#include <vector>

#include "base/dotted_path.h"
#include "harness/suite/swept_axes.h"
#include "io/value_path.h"

namespace mixerbench::harness {
namespace {

// Splits at commas outside brackets, braces and quotes.
std::vector<std::string> SplitTopLevel(std::string_view text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\' && i + 1 < text.size()) {
        parts.back() += c;
        parts.back() += text[++i];
        continue;
      }
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == ',' && depth == 0) {
      parts.emplace_back();
      continue;
    }
    parts.back() += c;
  }
  return parts;
}

// And what is left empty by that, which would be no axes at all.
void EraseAxis(Object& document, const std::string& path) {
  bool is_erased = false;
  for (const SweptAxes& swept : SweptAxesOf(document)) {
    is_erased = swept.axes->erase(path) > 0 || is_erased;
  }
  if (!is_erased) return;
  Object& kinds = document.at("sweep").as_object();
  const auto is_empty = [](const Value& axes) { return axes == Value(Object{}); };
  if (const auto zip = kinds.find("zip"); zip != kinds.end() && zip->second.is_array()) {
    std::erase_if(zip->second.as_array(), is_empty);
    if (zip->second.as_array().empty()) kinds.erase(zip);
  }
  std::erase_if(kinds, [&](const auto& kind) { return is_empty(kind.second); });
}

// Of a path that is no axis itself.
bool IsBelowAxis(Object& document, const std::string& path) {
  const std::vector<SweptAxes> all = SweptAxesOf(document);
  return std::any_of(all.begin(), all.end(), [&](const SweptAxes& swept) {
    return std::any_of(swept.axes->begin(), swept.axes->end(),
                       [&](const auto& axis) { return LiesIn(path, axis.first); });
  });
}

// Whether the suite chooses among the values of this axis, of which one may be left.
bool IsChosenOver(const Object& document, const std::string& path) {
  const Value* over = io::FindPath(document, "sweep.select.over");
  if (over == nullptr || !over->is_array()) return false;
  const Array& paths = over->as_array();
  return std::find(paths.begin(), paths.end(), Value(path)) != paths.end();
}

}  // namespace

void ApplySetting(Object& document, const std::string& path, std::string_view text) {
  const std::string where = "--set " + path;
  Array values;
  for (const auto& part : SplitTopLevel(text)) values.push_back(io::ParseSettingValue(part));
  EraseAxis(document, path);
  if (values.size() == 1 && !IsBelowAxis(document, path) && !IsChosenOver(document, path)) {
    io::SetPath(document, path, values[0], where);
    return;
  }
  Object grid;
  if (const Value* known = io::FindPath(document, "sweep.grid"); known && known->is_object()) {
    grid = known->as_object();
  }
  grid[path] = std::move(values);  // one key with dots, so not by SetPath
  io::SetPath(document, "sweep.grid", std::move(grid), where);
}

}  // namespace mixerbench::harness
