// SPDX-License-Identifier: Apache-2.0
#include "harness/progress_line.h"

#include <cmath>
#include <cstdio>
#include <iostream>
#include <unistd.h>

namespace mixerbench::harness {
namespace {

constexpr auto kPlainInterval = std::chrono::seconds(30);
constexpr std::size_t kMaxColumns = 119;  // a longer status would wrap and could not be rewritten

}  // namespace

ProgressLine::ProgressLine(bool quiet)
    : quiet_(quiet),
      terminal_(isatty(STDERR_FILENO) == 1),
      last_plain_(std::chrono::steady_clock::now()) {}

ProgressLine::~ProgressLine() {
  if (shown_) std::cerr << "\n";
}

void ProgressLine::Update(const std::string& text) {
  if (quiet_) return;
  if (terminal_) {
    std::cerr << "\r\033[K" << text.substr(0, kMaxColumns) << std::flush;
    shown_ = true;
    return;
  }
  const auto now = std::chrono::steady_clock::now();
  if (now - last_plain_ < kPlainInterval) return;
  last_plain_ = now;
  std::cerr << text << std::endl;
}

void ProgressLine::Print(const std::string& text) {
  if (quiet_) return;
  if (shown_) std::cerr << "\r\033[K";
  shown_ = false;
  std::cerr << text << std::endl;
  last_plain_ = std::chrono::steady_clock::now();
}

std::string FormatDuration(double seconds) {
  const auto total = static_cast<long>(std::lround(seconds));
  char text[32];
  if (total >= 3600) {
    std::snprintf(text, sizeof text, "%ldh%02ldm", total / 3600, total % 3600 / 60);
  } else if (total >= 60) {
    std::snprintf(text, sizeof text, "%ldm%02lds", total / 60, total % 60);
  } else {
    std::snprintf(text, sizeof text, "%lds", total);
  }
  return text;
}

}  // namespace mixerbench::harness
