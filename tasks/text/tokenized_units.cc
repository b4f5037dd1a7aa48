// SPDX-License-Identifier: Apache-2.0
#include "tasks/text/tokenized_units.h"

namespace mixerbench::tasks {

TokenizedUnits::TokenizedUnits(std::vector<std::string> units, char joiner,
                               const Tokenizer& tokenizer)
    : units_(std::move(units)), joiner_(joiner) {
  ranges_.reserve(2 * units_.size());
  const auto encode = [&](std::string_view text) {
    const std::size_t begin = tokens_.size();
    tokenizer.Encode(text, tokens_);
    ranges_.push_back({begin, tokens_.size() - begin});
  };
  std::string joined;
  for (const std::string& unit : units_) {
    encode(unit);
    joined.assign(1, joiner_).append(unit);
    encode(joined);
  }
}

}  // namespace mixerbench::tasks
