// What a user can get wrong, as exceptions that `main` turns into one line and an exit code.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace mixerbench {

// Exit codes of the program (docs/CLI.md). When several apply, the first in the order
// 70, 2, 3, 8, 7, 75, 9, 6, 1, 4, 5, 0 wins.
enum class ExitCode : int {
  kOk = 0,
  kNo = 1,             // the question was answered "no"
  kUsage = 2,          // usage or config error; nothing was started
  kBadInput = 3,       // input file unreadable, corrupt or of the wrong schema
  kCellsFailed = 4,    // finished, but some cells did not complete
  kInconclusive = 5,   // too little data to say yes or no
  kMissing = 6,        // rows that were asked for are missing
  kEnvironment = 7,    // no GPU, built without CUDA, ...
  kOutput = 8,         // disk full, no permission, folder locked
  kNothingSelected = 9,
  kInternal = 70,
  kStoppedEarly = 75,  // state saved; the same command continues
};

class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

// Bad configuration. `where` is a JSON pointer ("/task/vocab_size") or a flag ("--seeds").
class ConfigError : public Error {
 public:
  ConfigError(std::string_view where, std::string_view what)
      : Error(ExitCode::kUsage,
              where.empty() ? std::string(what) : std::string(where) + ": " + std::string(what)),
        where_(where),
        what_(what) {}
  const std::string& where() const { return where_; }
  const std::string& reason() const { return what_; }

 private:
  std::string where_;
  std::string what_;
};

// This build or machine cannot do what was asked (no CUDA, no GPU).
class BackendUnavailable : public Error {
 public:
  explicit BackendUnavailable(const std::string& message)
      : Error(ExitCode::kEnvironment, message) {}
};

}  // namespace mixerbench
