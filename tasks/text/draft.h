// A prompt under construction: text of its own and units encoded beforehand, in order. Its text
// and its tokens come from the same parts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/text/tokenized_units.h"
#include "tasks/text/tokenizer.h"

namespace mixerbench::tasks {

class Draft {
 public:
  // Where own text meets a unit there must be a word border: a space before it or a newline.
  void AddText(std::string_view text);
  // `units` must outlive the draft.
  void AddUnit(const TokenizedUnits& units, std::uint32_t unit, bool is_joined);

  bool empty() const { return parts_.empty(); }

  std::string Text() const;

  // Appends the tokens of Text() as the beginning of a prompt.
  void AppendTokens(const Tokenizer& tokenizer, std::vector<std::int32_t>& tokens) const;

 private:
  struct Part {
    const TokenizedUnits* units = nullptr;  // nullptr: own text
    std::uint32_t unit = 0;
    bool is_joined = false;
    std::size_t end = 0;  // of the own text, in own_text_
  };

  // The tokens of a unit that does not begin the prompt.
  static void AppendUnit(const Tokenizer& tokenizer, const Part& part,
                         std::vector<std::int32_t>& tokens);

  std::vector<Part> parts_;
  std::string own_text_;
};

// Tokens of `text`, in the middle of a prompt or as its beginning.
std::int64_t CountTokens(const Tokenizer& tokenizer, std::string_view text);
std::int64_t CountTokensAtStart(const Tokenizer& tokenizer, std::string_view text);

}  // namespace mixerbench::tasks
