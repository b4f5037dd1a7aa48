// SPDX-License-Identifier: Apache-2.0
#include "tasks/text/tokenized_units.h"

#include <string>
#include <utility>

namespace mixerbench::tasks {

TokenizedUnits::TokenizedUnits(std::shared_ptr<const TextTable> units, char joiner,
                               const Tokenizer& tokenizer)
    : units_(std::move(units)), joiner_(joiner) {
  // A token is a byte or more. Memory that is reserved and not written costs nothing, growing would
  // hold the tokens twice.
  tokens_.reserve(units_->num_bytes() + size());
  ends_.reserve(size());
  num_first_tokens_.reserve(size());
  std::vector<std::int32_t> first;
  std::string joined;
  for (std::uint32_t unit = 0; unit < size(); ++unit) {
    first.clear();
    tokenizer.Encode(text(unit), first);
    num_first_tokens_.push_back(static_cast<std::uint32_t>(first.size()));
    joined.assign(1, joiner_).append(text(unit));
    tokenizer.Encode(joined, tokens_);
    ends_.push_back(static_cast<std::uint32_t>(tokens_.size()));
  }
}

TokenizedUnits::TokenizedUnits(std::string_view unit, char joiner, const Tokenizer& tokenizer)
    : TokenizedUnits(std::make_shared<const TextTable>(TextTable{unit}), joiner, tokenizer) {}

}  // namespace mixerbench::tasks
