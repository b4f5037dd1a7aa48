// SPDX-License-Identifier: Apache-2.0
#include "tasks/text/haystack_fill.h"

#include <cmath>
#include <cstdio>

#include "base/error.h"

namespace mixerbench::tasks {
namespace {

// Shares of the room that may be left empty on average.
constexpr double kRefused = 0.25, kWarned = 0.05;

std::string Rounded(double value) { return std::to_string(std::llround(value)); }

}  // namespace

double MeanShortfall(const TokenizedUnits& sentences) {
  double sum_of_squares = 0;
  for (std::uint32_t s = 0; s < sentences.size(); ++s) {
    const auto num_tokens = static_cast<double>(sentences.num_tokens(s, true));
    sum_of_squares += num_tokens * num_tokens;
  }
  return sum_of_squares / static_cast<double>(2 * sentences.total_tokens());
}

void CheckFill(const TokenizedUnits& sentences, std::int64_t room, const std::string& where) {
  const double shortfall = MeanShortfall(sentences);
  if (shortfall <= kRefused * static_cast<double>(room)) return;
  throw ConfigError(where, "its lines are too long: a context has room for " +
                               std::to_string(room) + " tokens of haystack and would on average " +
                               "end " + Rounded(shortfall) +
                               " short; put one sentence on each line, or raise input_seq_len");
}

std::vector<std::string> FillWarnings(const TokenizedUnits& sentences, std::int64_t room,
                                      const std::string& name) {
  std::vector<std::string> warnings;
  const double shortfall = MeanShortfall(sentences);
  if (shortfall > kWarned * static_cast<double>(room)) {
    warnings.push_back("prompts end about " + Rounded(shortfall) +
                       " tokens short of input_seq_len on average: the sentences of '" + name +
                       "' are long beside the " + std::to_string(room) +
                       " tokens that a context has room for");
  }
  if (sentences.total_tokens() < room) {
    const double times = static_cast<double>(room) / static_cast<double>(sentences.total_tokens());
    char text[32];
    std::snprintf(text, sizeof text, times < 10 ? "%.1f" : "%.0f", times);
    warnings.push_back("the " + std::to_string(sentences.size()) + " sentences of '" + name +
                       "' come about " + text + " times in a context of " + std::to_string(room) +
                       " tokens");
  }
  return warnings;
}

}  // namespace mixerbench::tasks
