// What contexts are made of, encoded once: sentences or lines with their tokens.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "tasks/text/text_table.h"
#include "tasks/text/tokenizer.h"

namespace mixerbench::tasks {

// A unit stands after another one with the joiner before it, or first in its context. Its tokens
// differ: those of the first are kept too, but of the second only their number, since one unit of a
// context is first.
class TokenizedUnits {
 public:
  // joiner: ' ' for sentences, '\n' for lines; a word border of every tokenizer.
  TokenizedUnits(std::shared_ptr<const TextTable> units, char joiner, const Tokenizer& tokenizer);
  // One unit.
  TokenizedUnits(std::string_view unit, char joiner, const Tokenizer& tokenizer);

  std::uint32_t size() const { return units_->size(); }
  char joiner() const { return joiner_; }
  std::string_view text(std::uint32_t unit) const { return (*units_)[unit]; }

  // With the joiner before it.
  std::span<const std::int32_t> joined_tokens(std::uint32_t unit) const {
    return std::span(tokens_).subspan(Begin(unit), ends_[unit] - Begin(unit));
  }
  std::int64_t num_tokens(std::uint32_t unit, bool is_joined) const {
    return is_joined ? ends_[unit] - Begin(unit) : num_first_tokens_[unit];
  }
  // Of all units, joined.
  std::int64_t total_tokens() const { return std::ssize(tokens_); }

 private:
  std::uint32_t Begin(std::uint32_t unit) const { return unit == 0 ? 0 : ends_[unit - 1]; }

  std::shared_ptr<const TextTable> units_;
  char joiner_;
  std::vector<std::int32_t> tokens_;             // of the joined units, end to end
  std::vector<std::uint32_t> ends_;              // of each unit in tokens_
  std::vector<std::uint32_t> num_first_tokens_;  // of each unit when it is first
};

}  // namespace mixerbench::tasks
