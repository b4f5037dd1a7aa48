// SPDX-License-Identifier: Apache-2.0
#include "tests/accuracy/growth.h"

#include <algorithm>
#include <cstdio>

#include "tests/accuracy/passes.h"

namespace mixerbench::accuracy {
namespace {

// Several chunks each, of every size in use.
constexpr std::int64_t kShort = 128;
constexpr std::int64_t kLong = 256;

}  // namespace

Growth::Growth(const std::function<std::unique_ptr<Subject>(std::int64_t)>& make) {
  const auto at_short = static_cast<double>(CountOperations(*make(kShort)));
  const auto at_long = static_cast<double>(CountOperations(*make(kLong)));
  per_token_ = std::max(0.0, (at_long - at_short) / static_cast<double>(kLong - kShort));
  constant_ = std::max(0.0, at_long - per_token_ * static_cast<double>(kLong));
}

double Growth::Operations(std::int64_t seq_len) const {
  return constant_ + per_token_ * static_cast<double>(seq_len);
}

std::string Growth::Refusal(std::int64_t seq_len, std::int64_t max_operations) const {
  if (max_operations == 0 || Operations(seq_len) <= static_cast<double>(max_operations)) return {};
  char text[160];
  std::snprintf(text, sizeof text,
                "left out for its time: %.3g operations one after the other, of at most %lld; "
                "%.3g a token",
                Operations(seq_len), static_cast<long long>(max_operations), per_token_);
  return text;
}

}  // namespace mixerbench::accuracy
