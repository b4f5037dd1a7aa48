// JSON text to Value and back: the only door between this program and the JSON library.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/value.h"

namespace mixerbench::reports {

struct JsonLimits {
  std::size_t max_bytes = std::size_t{16} << 20;
  int max_depth = 64;
  std::size_t max_nodes = 1'000'000;
};

// Strict: duplicate keys, bad UTF-8, integers that overflow, non-finite numbers, depth and size
// are errors. Throws ConfigError whose `where` is "line L, column C" for syntax errors, else the
// JSON pointer.
Value ParseJson(std::string_view text, const JsonLimits& limits = {});

// Sorted keys, shortest round-trip numbers. indent < 0: one line without spaces (canonical form).
// Throws std::logic_error for a non-finite number: an absent value is null plus a state.
std::string DumpJson(const Value& value, int indent = -1);

}  // namespace mixerbench::reports
