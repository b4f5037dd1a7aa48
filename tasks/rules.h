// Rejection of parameters: the first broken rule becomes one line that names the options.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace mixerbench::tasks {

// An option and its value, as a message shows it.
struct NamedValue {
  NamedValue(std::string_view option, std::int64_t number);
  NamedValue(std::string_view option, double number);
  NamedValue(std::string_view option, std::string_view word);

  std::string_view name;
  std::string text;
  double value = 0;  // of a number
};

// One statement a rule, so that each may rely on those before it:
//   const Rules rules("mqar", where);
//   rules.VocabSize(p.vocab_size);
//   rules.Must(p.power_a > 0, "power_a must be > 0", {{"power_a", p.power_a}});
// A broken one throws ConfigError at `where`: "mqar: power_a must be > 0 (power_a=0)".
class Rules {
 public:
  Rules(std::string_view task, std::string_view where) : task_(task), where_(where) {}

  void Must(bool holds, std::string_view rule, std::initializer_list<NamedValue> values) const;

  // An option that acts only `with` others keeps its default without them: `acts` tells.
  void ActsOnly(bool acts, std::string_view with, const NamedValue& option,
                const NamedValue& standard) const;

  // The rules that every task has.
  void VocabSize(std::int64_t vocab_size) const;
  // The length is the sum of `parts`.
  void SequenceLength(std::initializer_list<NamedValue> parts) const;
  // lo <= value < hi; NaN is outside.
  void Fraction(const NamedValue& fraction, std::int64_t lo, std::int64_t hi) const;

  // A share of noise in [0, 1), which needs noise tokens to draw.
  void NoiseFraction(const NamedValue& frac_noise, const NamedValue& noise_vocab_size) const;

 private:
  std::string_view task_;
  std::string_view where_;
};

}  // namespace mixerbench::tasks
