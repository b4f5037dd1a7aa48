// All that is wrong with a suite, not only what is met first, with where it stands.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/value.h"
#include "harness/suite/overrides.h"

namespace mixerbench::harness {

inline constexpr std::size_t kMaxErrors = 20;  // that are told

// Several, with the first as its text.
class ConfigErrors : public ConfigError {
 public:
  explicit ConfigErrors(std::vector<ConfigError> errors)
      : ConfigError(errors.front()), errors_(std::move(errors)) {}
  const std::vector<ConfigError>& errors() const { return errors_; }

 private:
  std::vector<ConfigError> errors_;
};

// Collects what parts that do not depend on each other throw.
class ErrorCollector {
 public:
  template <typename Function>
  void Try(const Function& function) {
    try {
      function();
    } catch (const ConfigErrors& several) {
      for (const ConfigError& error : several.errors()) Add(error);
    } catch (const ConfigError& error) {
      Add(error);
    }
  }

  bool is_full() const { return errors_.size() >= kMaxErrors; }
  bool is_empty() const { return errors_.empty(); }
  void ThrowAny() const;  // ConfigErrors, unless there is none

 private:
  void Add(const ConfigError& error);  // once

  std::vector<ConfigError> errors_;
};

// Throws one ConfigError with all errors of a suite, a line each when there are several, each with
// the line and the column of `text`, or the --set that it comes of. `first` is what `check` of
// `document`, the JSON of `text`, threw. Others show when it is checked again without members that
// are wrong by themselves: unknown, of the wrong type, out of range. What then follows from their
// absence is not told.
[[noreturn]] void ThrowAllErrors(
    std::string_view text, const Value& document, const SuiteOverrides& overrides,
    const std::function<void(const Value&, const SuiteOverrides&)>& check,
    const ConfigError& first);

}  // namespace mixerbench::harness
