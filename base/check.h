// Preconditions. A failed Require is a bug in this program, never a fault of the user's input.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace mixerbench {

// Where a function was called: std::source_location, which clang 14 does not have.
struct CallSite {
  const char* file;
  int line;

  static constexpr CallSite Current(const char* file = __builtin_FILE(),
                                    int line = __builtin_LINE()) {
    return {file, line};
  }
};

// Throws std::logic_error with file and line when `condition` is false.
inline void Require(bool condition, std::string_view message,
                    CallSite where = CallSite::Current()) {
  if (condition) return;
  throw std::logic_error(std::string(where.file) + ":" + std::to_string(where.line) + ": " +
                         std::string(message));
}

}  // namespace mixerbench
