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

std::string StringAt(const Value& document, std::string_view path) {
  const Value* value = document.is_object() ? FindPath(document.as_object(), path) : nullptr;
  return value && value->is_string() ? value->as_string() : "";
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

}  // namespace mixerbench::io
