// Preconditions. A failed Require is a bug in this program, never a fault of the user's input.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

namespace mixerbench {

// Throws std::logic_error with file and line when `condition` is false.
inline void Require(bool condition, std::string_view message,
                    std::source_location where = std::source_location::current()) {
  if (condition) return;
  throw std::logic_error(std::string(where.file_name()) + ":" + std::to_string(where.line()) +
                         ": " + std::string(message));
}

}  // namespace mixerbench
