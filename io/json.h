// JSON text to Value and back: the only door between this program and the JSON library.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "base/value.h"

namespace mixerbench::io {

struct JsonLimits {
  std::size_t max_bytes = std::size_t{16} << 20;
  int max_depth = 64;
  std::size_t max_nodes = 1'000'000;
};

// Reports are larger than what a person writes; the depth limit stays.
inline constexpr JsonLimits kReportLimits = {
    .max_bytes = std::size_t{512} << 20, .max_depth = 64, .max_nodes = 50'000'000};

// Strict: duplicate keys, bad UTF-8, integers that overflow, non-finite numbers, depth and size
// are errors. Throws ConfigError whose `where` is "line L, column C" for syntax errors, else the
// JSON pointer.
Value ParseJson(std::string_view text, const JsonLimits& limits = {});

// One array of a document, a member of it, whose elements are taken as soon as they are read: a
// document of many large ones is never whole in memory.
struct TakenElements {
  std::string_view key;
  std::function<Value(Value element, std::size_t index)> take;  // what stays in its place
};
Value ParseJson(std::string_view text, const JsonLimits& limits, const TakenElements& taken);

// Sorted keys, shortest round-trip numbers; a double keeps a mark of its type ("1.0"), so that
// ParseJson(DumpJson(v)) == v. indent < 0: one line without spaces (canonical form); otherwise
// LF line ends and a final LF, as a file has. Bytes that are no UTF-8 become U+FFFD.
// Throws std::logic_error for a non-finite number: an absent value is null plus a state.
std::string DumpJson(const Value& value, int indent = -1);

// A value as a person reads it: the characters of a string, without quotes; other values as JSON.
std::string ValueText(const Value& value);

// `text` with every malformed UTF-8 sequence replaced by U+FFFD.
std::string ValidUtf8(std::string_view text);

// `key` as one reference token of a JSON pointer (RFC 6901).
std::string PointerToken(std::string_view key);

}  // namespace mixerbench::io
