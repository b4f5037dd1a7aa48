// SPDX-License-Identifier: Apache-2.0
#include "tasks/canon.h"

#include <array>
#include <charconv>

namespace mixerbench::tasks {

std::string FormatReal(double value) {
  std::array<char, 1100> text;  // the smallest double has 1,074 decimals
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  return std::string(text.data(), end.ptr);
}

Canon& Canon::Integer(std::string_view name, std::int64_t value) {
  parameters_.emplace(name, std::to_string(value));
  return *this;
}

Canon& Canon::Flag(std::string_view name, bool value) {
  parameters_.emplace(name, value ? "1" : "0");
  return *this;
}

Canon& Canon::Real(std::string_view name, double value) {
  parameters_.emplace(name, FormatReal(value));
  return *this;
}

Canon& Canon::Word(std::string_view name, std::string_view value) {
  parameters_.emplace(name, value);
  return *this;
}

std::string Canon::Text() const {
  std::string text = task_;
  for (const auto& [name, value] : parameters_) {
    text.append(";").append(name).append("=").append(value);
  }
  return text;
}

}  // namespace mixerbench::tasks
