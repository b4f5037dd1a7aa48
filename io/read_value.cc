// SPDX-License-Identifier: Apache-2.0
#include "io/read_value.h"

#include <algorithm>

#include "base/error.h"
#include "base/suggest.h"

namespace mixerbench::io {

const Value& RequireMember(const Value& object, const std::string& where, std::string_view key) {
  const Value* member = object.Find(key);
  if (!member) {
    throw ConfigError(where + "/" + std::string(key), "missing; add it (see docs/CONFIG.md)");
  }
  return *member;
}

void RequireObject(const Value& value, const std::string& where) {
  if (!value.is_object()) {
    throw ConfigError(where, "expected an object, got " + std::string(value.type_name()));
  }
}

void RequireKnownKeys(const Value& object, const std::string& where,
                      const std::vector<std::string>& known) {
  RequireObject(object, where);
  for (const auto& [key, value] : object.as_object()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      throw ConfigError(where + "/" + key, UnknownName("key", key, known));
    }
  }
}

std::int64_t ReadInt(const Value& value, const std::string& where, std::int64_t least) {
  if (!value.is_int()) {
    throw ConfigError(where, "expected an integer, got " + std::string(value.type_name()));
  }
  if (value.as_int() < least) throw ConfigError(where, "must be >= " + std::to_string(least));
  return value.as_int();
}

std::string ReadName(const Value& value, const std::string& where) {
  if (!value.is_string()) {
    throw ConfigError(where, "expected a string, got " + std::string(value.type_name()));
  }
  return value.as_string();
}

}  // namespace mixerbench::io
