// Rejection of parameters: the first broken rule becomes one line that names the options.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace mixerbench::tasks {

// An option and its value as a message shows it.
struct NamedValue {
  NamedValue(std::string_view option, std::int64_t number);
  NamedValue(std::string_view option, double number);

  std::string_view name;
  std::string value;
};

// Rules are checked in the order they are written:
//   Rules("mqar", where)
//       .VocabSize(p.vocab_size)
//       .Must(p.power_a > 0, "power_a must be > 0", {{"power_a", p.power_a}});
// A broken one throws ConfigError at `where`: "mqar: power_a must be > 0 (power_a=0)".
class Rules {
 public:
  Rules(std::string_view task, std::string_view where) : task_(task), where_(where) {}

  const Rules& Must(bool holds, std::string_view rule,
                    std::initializer_list<NamedValue> values) const;

  // The rules that every task has.
  const Rules& VocabSize(std::int64_t vocab_size) const;
  const Rules& SequenceLength(std::string_view option, std::int64_t seq_len) const;
  // lo <= value < hi; NaN is outside.
  const Rules& Fraction(std::string_view option, double value, std::int64_t lo,
                        std::int64_t hi) const;

 private:
  std::string_view task_;
  std::string_view where_;
};

}  // namespace mixerbench::tasks
