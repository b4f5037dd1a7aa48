// What contexts are made of, encoded once: sentences or lines with their tokens.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/text/tokenizer.h"

namespace mixerbench::tasks {

// A unit stands first in its context, or after another one with the joiner before it: its tokens
// differ, so both are kept.
class TokenizedUnits {
 public:
  // joiner: ' ' for sentences, '\n' for lines; a word border of every tokenizer.
  TokenizedUnits(std::vector<std::string> units, char joiner, const Tokenizer& tokenizer);

  std::uint32_t size() const { return static_cast<std::uint32_t>(units_.size()); }
  char joiner() const { return joiner_; }
  const std::string& text(std::uint32_t unit) const { return units_[unit]; }

  std::span<const std::int32_t> tokens(std::uint32_t unit, bool is_joined) const {
    const Range& range = ranges_[2 * std::size_t{unit} + (is_joined ? 1 : 0)];
    return std::span(tokens_).subspan(range.begin, range.size);
  }
  std::int64_t num_tokens(std::uint32_t unit, bool is_joined) const {
    return static_cast<std::int64_t>(ranges_[2 * std::size_t{unit} + (is_joined ? 1 : 0)].size);
  }

 private:
  struct Range {
    std::size_t begin = 0;
    std::size_t size = 0;
  };

  std::vector<std::string> units_;
  char joiner_;
  std::vector<std::int32_t> tokens_;
  std::vector<Range> ranges_;  // of a unit when it is first, and when it is joined
};

}  // namespace mixerbench::tasks
