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
    : name(option), text(std::to_string(number)), value(static_cast<double>(number)) {}

NamedValue::NamedValue(std::string_view option, double number)
    : name(option), text(FormatReal(number)), value(number) {}

NamedValue::NamedValue(std::string_view option, std::string_view word) : name(option), text(word) {}

void Rules::Must(bool holds, std::string_view rule,
                 std::initializer_list<NamedValue> values) const {
  if (holds) return;
  std::string message(task_);
  message.append(": ").append(rule);
  std::string_view separator = " (";
  for (const NamedValue& item : values) {
    message.append(separator).append(item.name).append("=").append(item.text);
    separator = ", ";
  }
  throw ConfigError(where_, message + (values.size() != 0 ? ")" : ""));
}

void Rules::ActsOnly(bool acts, std::string_view with, const NamedValue& option,
                     const NamedValue& standard) const {
  std::string rule(option.name);
  rule.append(" acts only with ").append(with);
  Must(acts || option.text == standard.text, rule, {option});
}

void Rules::VocabSize(std::int64_t vocab_size) const {
  Must(vocab_size >= 2 && vocab_size <= kMaxSize, "vocab_size must be in [2, 16777216]",
       {{"vocab_size", vocab_size}});
}

void Rules::SequenceLength(std::initializer_list<NamedValue> parts) const {
  std::string rule;
  double length = 0;  // exact for every sum that is in range, and cannot overflow
  for (const NamedValue& part : parts) {
    rule.append(rule.empty() ? "" : " + ").append(part.name);
    length += part.value;
  }
  Must(length >= 2 && length <= kMaxSize, rule + " must be in [2, 16777216]", parts);
}

void Rules::Fraction(const NamedValue& fraction, std::int64_t lo, std::int64_t hi) const {
  const std::string rule = std::string(fraction.name) + " must be in [" + std::to_string(lo) +
                           ", " + std::to_string(hi) + ")";
  Must(fraction.value >= static_cast<double>(lo) && fraction.value < static_cast<double>(hi), rule,
       {fraction});
}

void Rules::NoiseFraction(const NamedValue& frac_noise, const NamedValue& noise_vocab_size) const {
  Fraction(frac_noise, 0, 1);
  Must(noise_vocab_size.value > 0 || frac_noise.value == 0,
       "noise_vocab_size must be > 0 when frac_noise > 0", {noise_vocab_size, frac_noise});
}

}  // namespace mixerbench::tasks
