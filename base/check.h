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

// A failed Require. what() begins with the place in the code, "file:line: ".
class BrokenPrecondition : public std::logic_error {
 public:
  BrokenPrecondition(std::string_view message, CallSite where)
      : std::logic_error(std::string(where.file) + ":" + std::to_string(where.line) + ": " +
                         std::string(message)),
        message_(message) {}
  // Without the place, for what a user is told.
  const std::string& message() const { return message_; }

 private:
  std::string message_;
};

// Throws BrokenPrecondition, a std::logic_error, when `condition` is false.
inline void Require(bool condition, std::string_view message,
                    CallSite where = CallSite::Current()) {
  if (!condition) throw BrokenPrecondition(message, where);
}

}  // namespace mixerbench
