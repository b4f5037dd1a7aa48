// Reading hand-written JSON: every error names the place.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/value.h"

namespace mixerbench::io {

// `where` is the JSON pointer of the value that is read. All throw ConfigError.
const Value& RequireMember(const Value& object, const std::string& where, std::string_view key);
void RequireObject(const Value& value, const std::string& where);
void RequireKnownKeys(const Value& object, const std::string& where,
                      const std::vector<std::string>& known);
std::int64_t ReadInt(const Value& value, const std::string& where, std::int64_t least);
std::string ReadName(const Value& value, const std::string& where);

}  // namespace mixerbench::io
