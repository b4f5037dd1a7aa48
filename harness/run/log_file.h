// The log of a run: what it says on stderr, line by line with the time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace mixerbench::harness {

// Now, as "2026-11-21T03:55:00Z".
std::string UtcNow();

// While it lives, every line that goes to std::cerr also goes to the end of the file, behind the
// time. A status line that is rewritten in place (it ends with '\r') does not. Several processes
// may share a file: a line is one write. A file that can no longer be written costs one warning.
class LogFile {
 public:
  // Makes the file if it is not there. Errors: Error(kOutput), also for what is no regular file.
  explicit LogFile(const std::filesystem::path& path);
  ~LogFile();
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  // A line for the file alone, without its line end.
  void Write(std::string_view line);

  const std::filesystem::path& path() const { return path_; }  // absolute

 private:
  class Tee;

  std::filesystem::path path_;
  std::unique_ptr<Tee> tee_;
};

// What a run is going to do: a line on stderr or, when it is quiet, in the log alone, which may be
// nullptr.
void SayAtStart(const std::string& text, bool quiet, LogFile* log);

}  // namespace mixerbench::harness
