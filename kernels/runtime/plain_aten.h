// The fast path without device code: the same algorithms by ATen's own functions. What plain ATen
// is off by in a precision is what device code is held against.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace mixerbench::kernels {

// While it lives, this thread's dispatchers choose no device code.
class PlainAten {
 public:
  PlainAten() : outer_(asked_) { asked_ = true; }
  ~PlainAten() { asked_ = outer_; }
  PlainAten(const PlainAten&) = delete;
  PlainAten& operator=(const PlainAten&) = delete;

  static bool IsAsked() { return asked_; }

 private:
  static thread_local bool asked_;
  bool outer_;
};

inline constexpr std::string_view kPlainAtenAsked = "plain ATen was asked for";

}  // namespace mixerbench::kernels
