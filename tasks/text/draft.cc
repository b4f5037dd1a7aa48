// SPDX-License-Identifier: Apache-2.0
#include "tasks/text/draft.h"

namespace mixerbench::tasks {
namespace {

void EncodeStart(const Tokenizer& tokenizer, std::string_view text,
                 std::vector<std::int32_t>& tokens) {
  if (tokenizer.begins_with_space()) {
    tokenizer.Encode(" " + std::string(text), tokens);
  } else {
    tokenizer.Encode(text, tokens);
  }
}

}  // namespace

void Draft::AddText(std::string_view text) {
  if (text.empty()) return;
  own_text_.append(text);
  if (!parts_.empty() && parts_.back().units == nullptr) {
    parts_.back().end = own_text_.size();
  } else {
    parts_.push_back({.end = own_text_.size()});
  }
}

void Draft::AddUnit(const TokenizedUnits& units, std::uint32_t unit, bool is_joined) {
  parts_.push_back({.units = &units, .unit = unit, .is_joined = is_joined});
}

std::string Draft::Text() const {
  std::string text;
  std::size_t begin = 0;
  for (const Part& part : parts_) {
    if (part.units == nullptr) {
      text.append(own_text_, begin, part.end - begin);
      begin = part.end;
    } else {
      if (part.is_joined) text += part.units->joiner();
      text += part.units->text(part.unit);
    }
  }
  return text;
}

void Draft::AppendTokens(const Tokenizer& tokenizer, std::vector<std::int32_t>& tokens) const {
  std::size_t begin = 0;
  bool is_start = true;
  for (const Part& part : parts_) {
    const auto own = [&] { return std::string_view(own_text_).substr(begin, part.end - begin); };
    if (part.units != nullptr) {
      if (is_start && !part.is_joined) {
        EncodeStart(tokenizer, part.units->text(part.unit), tokens);
      } else {
        AppendUnit(tokenizer, part, tokens);
      }
    } else {
      if (is_start) {
        EncodeStart(tokenizer, own(), tokens);
      } else {
        tokenizer.Encode(own(), tokens);
      }
      begin = part.end;
    }
    is_start = false;
  }
}

void Draft::AppendUnit(const Tokenizer& tokenizer, const Part& part,
                       std::vector<std::int32_t>& tokens) {
  if (part.is_joined) {
    const auto unit = part.units->joined_tokens(part.unit);
    tokens.insert(tokens.end(), unit.begin(), unit.end());
  } else {
    tokenizer.Encode(part.units->text(part.unit), tokens);
  }
}

std::int64_t CountTokens(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::int32_t> tokens;
  tokenizer.Encode(text, tokens);
  return std::ssize(tokens);
}

std::int64_t CountTokensAtStart(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::int32_t> tokens;
  EncodeStart(tokenizer, text, tokens);
  return std::ssize(tokens);
}

}  // namespace mixerbench::tasks
