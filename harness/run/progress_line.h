// One status line on stderr: rewritten in place on a terminal, a plain line now and then elsewhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

#include "harness/run/log_file.h"

namespace mixerbench::harness {

class ProgressLine {
 public:
  // `quiet`: nothing on stderr; lines that stay still go to the log, if there is one.
  ProgressLine(bool quiet, LogFile* log);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Whether a status would be shown: always on a terminal, every 30 s elsewhere.
  bool IsDue() const;
  // The current status.
  void Update(const std::string& text);
  // A line that stays.
  void Print(const std::string& text);

 private:
  bool quiet_;
  LogFile* log_;
  bool terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point last_plain_;
};

}  // namespace mixerbench::harness
