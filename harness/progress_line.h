// One status line on stderr: rewritten in place on a terminal, a plain line now and then elsewhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

namespace mixerbench::harness {

class ProgressLine {
 public:
  // `quiet`: nothing at all.
  explicit ProgressLine(bool quiet);
  ~ProgressLine();

  // The current status; shown at once on a terminal, every 30 s elsewhere.
  void Update(const std::string& text);
  // A line that stays.
  void Print(const std::string& text);

 private:
  bool quiet_;
  bool terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point last_plain_;
};

// "1h04m", "3m20s", "12s".
std::string FormatDuration(double seconds);

}  // namespace mixerbench::harness
