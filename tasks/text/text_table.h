// Many short texts end to end, so that a million lines take little more than their bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mixerbench::tasks {

// At most 4 GiB in all.
class TextTable {
 public:
  TextTable() = default;
  explicit TextTable(std::span<const std::string> texts) {
    for (const std::string& text : texts) Add(text);
  }
  TextTable(std::initializer_list<std::string_view> texts) {
    for (const std::string_view text : texts) Add(text);
  }

  // Room for texts that are known to come, so that growing never holds them twice.
  void Reserve(std::size_t num_texts, std::size_t num_bytes) {
    ends_.reserve(num_texts);
    bytes_.reserve(num_bytes);
  }

  void Add(std::string_view text) {
    bytes_ += text;
    ends_.push_back(static_cast<std::uint32_t>(bytes_.size()));
  }

  std::uint32_t size() const { return static_cast<std::uint32_t>(ends_.size()); }
  std::size_t num_bytes() const { return bytes_.size(); }
  std::string_view operator[](std::uint32_t text) const {
    const std::uint32_t begin = text == 0 ? 0 : ends_[text - 1];
    return std::string_view(bytes_).substr(begin, ends_[text] - begin);
  }

 private:
  std::string bytes_;
  std::vector<std::uint32_t> ends_;
};

}  // namespace mixerbench::tasks
