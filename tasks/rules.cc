// SPDX-License-Identifier: Apache-2.0
#include "tasks/rules.h"

#include "base/error.h"
#include "tasks/canon.h"

namespace mixerbench::tasks {
namespace {

// Token ids and positions stay exact in a float and leave room for products in 64 bits.
constexpr std::int64_t kMaxSize = 1 << 24;

}  // namespace

NamedValue::NamedValue(std::string_view option, std::int64_t number)
    : name(option), value(std::to_string(number)) {}

NamedValue::NamedValue(std::string_view option, double number)
    : name(option), value(FormatReal(number)) {}

const Rules& Rules::Must(bool holds, std::string_view rule,
                         std::initializer_list<NamedValue> values) const {
  if (holds) return *this;
  std::string message(task_);
  message.append(": ").append(rule);
  std::string_view separator = " (";
  for (const NamedValue& item : values) {
    message.append(separator).append(item.name).append("=").append(item.value);
    separator = ", ";
  }
  throw ConfigError(where_, message + (values.size() != 0 ? ")" : ""));
}

const Rules& Rules::VocabSize(std::int64_t vocab_size) const {
  return Must(vocab_size >= 2 && vocab_size <= kMaxSize, "vocab_size must be in [2, 16777216]",
              {{"vocab_size", vocab_size}});
}

const Rules& Rules::SequenceLength(std::string_view option, std::int64_t seq_len) const {
  return Must(seq_len >= 2 && seq_len <= kMaxSize,
              std::string(option) + " must be in [2, 16777216]", {{option, seq_len}});
}

const Rules& Rules::Fraction(std::string_view option, double value, std::int64_t lo,
                             std::int64_t hi) const {
  const std::string rule =
      std::string(option) + " must be in [" + std::to_string(lo) + ", " + std::to_string(hi) + ")";
  return Must(value >= static_cast<double>(lo) && value < static_cast<double>(hi), rule,
              {{option, value}});
}

}  // namespace mixerbench::tasks
