// SPDX-License-Identifier: Apache-2.0
#include "harness/run/progress_line.h"

#include <iostream>
#include <unistd.h>

namespace mixerbench::harness {
namespace {

constexpr auto kPlainInterval = std::chrono::seconds(30);
constexpr std::size_t kMaxColumns = 119;  // a longer status would wrap and could not be rewritten

}  // namespace

ProgressLine::ProgressLine(bool quiet, LogFile* log)
    : quiet_(quiet),
      log_(log),
      terminal_(isatty(STDERR_FILENO) == 1),
      last_plain_(std::chrono::steady_clock::now()) {}

ProgressLine::~ProgressLine() {
  if (shown_) std::cerr << "\n";
}

bool ProgressLine::IsDue() const {
  if (quiet_) return false;
  return terminal_ || std::chrono::steady_clock::now() - last_plain_ >= kPlainInterval;
}

void ProgressLine::Update(const std::string& text) {
  if (terminal_) {
    std::cerr << "\r\033[K" << text.substr(0, kMaxColumns) << std::flush;
    shown_ = true;
  } else {
    std::cerr << text << "\n" << std::flush;
  }
  last_plain_ = std::chrono::steady_clock::now();
}

void ProgressLine::Print(const std::string& text) {
  if (quiet_) {
    if (log_ != nullptr) log_->Write(text);
    return;
  }
  if (shown_) std::cerr << "\r\033[K";
  shown_ = false;
  std::cerr << text << "\n" << std::flush;
  last_plain_ = std::chrono::steady_clock::now();
}

}  // namespace mixerbench::harness
