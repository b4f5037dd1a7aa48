// Dotted paths into configuration values: "train.lr", "model.sequence_mixer.num_heads".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/value.h"

namespace mixerbench::io {

// --set path=value pairs in the order given.
using Settings = std::vector<std::pair<std::string, std::string>>;

// nullptr when the path leads nowhere.
const Value* FindPath(const Object& document, std::string_view path);

// The string at a path; empty where there is none.
std::string StringAt(const Value& document, std::string_view path);

// Creates missing objects on the way. Throws ConfigError at `where` when a step is not an object.
void SetPath(Object& document, std::string_view path, const Value& value, const std::string& where);

// JSON where it parses, else the text itself.
Value ParseSettingValue(std::string_view text);

}  // namespace mixerbench::io
