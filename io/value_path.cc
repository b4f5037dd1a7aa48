// SPDX-License-Identifier: Apache-2.0
#include "io/value_path.h"

#include <vector>

#include "base/error.h"
#include "io/json.h"

namespace mixerbench::io {
namespace {

std::vector<std::string> SplitPath(std::string_view path, const std::string& where) {
  std::vector<std::string> steps(1);
  for (const char c : path) {
    if (c == '.') {
      steps.emplace_back();
    } else {
      steps.back() += c;
    }
  }
  for (const auto& step : steps) {
    if (step.empty()) {
      throw ConfigError(where, "'" + std::string(path) + "' is no path; write it like train.lr");
    }
  }
  return steps;
}

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

// A value given by hand replaces the axis that a suite sweeps there.
void EraseAxis(Object& document, const std::string& path) {
  const auto sweep = document.find("sweep");
  if (sweep == document.end() || !sweep->second.is_object()) return;
  Object& kinds = sweep->second.as_object();
  for (const char* kind : {"grid", "zip"}) {
    const auto axes = kinds.find(kind);
    if (axes == kinds.end() || !axes->second.is_object()) continue;
    axes->second.as_object().erase(path);
    if (axes->second.as_object().empty()) kinds.erase(axes);
  }
}

}  // namespace

const Value* FindPath(const Object& document, std::string_view path) {
  const Object* object = &document;
  const Value* value = nullptr;
  for (const auto& step : SplitPath(path, "")) {
    if (!object) return nullptr;
    const auto found = object->find(step);
    if (found == object->end()) return nullptr;
    value = &found->second;
    object = value->is_object() ? &value->as_object() : nullptr;
  }
  return value;
}

void SetPath(Object& document, std::string_view path, const Value& value,
             const std::string& where) {
  Object* object = &document;
  const auto steps = SplitPath(path, where);
  for (std::size_t i = 0; i + 1 < steps.size(); ++i) {
    Value& next = (*object)[steps[i]];
    if (next.is_null()) next = Object{};
    if (!next.is_object()) {
      throw ConfigError(where, "'" + std::string(path) + "': '" + steps[i] + "' is a " +
                                   std::string(next.type_name()) + ", not an object");
    }
    object = &next.as_object();
  }
  (*object)[steps.back()] = value;
}

Value ParseSettingValue(std::string_view text) {
  try {
    return ParseJson(text);
  } catch (const ConfigError&) {
    return text;  // not JSON: a bare word such as gla or cosine_epoch
  }
}

void ApplySetting(Object& document, const std::string& path, const std::string& text) {
  const std::string where = "--set " + path;
  const auto parts = SplitTopLevel(text);
  EraseAxis(document, path);
  if (parts.size() == 1) {
    SetPath(document, path, ParseSettingValue(text), where);
    return;
  }
  Array values;
  for (const auto& part : parts) values.push_back(ParseSettingValue(part));
  Object grid;
  if (const Value* known = FindPath(document, "sweep.grid"); known && known->is_object()) {
    grid = known->as_object();
  }
  grid[path] = std::move(values);  // one key with dots, so not by SetPath
  SetPath(document, "sweep.grid", std::move(grid), where);
}

}  // namespace mixerbench::io
