// Checks of sizes that a user chose: every failure is a ConfigError naming the option.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string>
#include <string_view>

#include "base/error.h"

namespace mixerbench::models {

// Throws unless lo <= value <= hi.
inline void CheckRange(std::int64_t value, std::int64_t lo, std::int64_t hi,
                       const std::string& where, std::string_view option) {
  if (lo <= value && value <= hi) return;
  throw ConfigError(
      where + "/" + std::string(option),
      std::to_string(value) + " is not in " + std::to_string(lo) + ".." + std::to_string(hi));
}

// Throws unless the value is positive and finite: a temperature.
inline void CheckPositive(double value, const std::string& where, std::string_view option) {
  if (value > 0 && std::isfinite(value)) return;
  throw ConfigError(where + "/" + std::string(option), "must be positive");
}

// What keeps a root or a denominator from zero: positive and finite, in float32 too.
inline void CheckEps(double value, const std::string& where, std::string_view option) {
  if (value >= std::numeric_limits<float>::min() && value <= std::numeric_limits<float>::max()) {
    return;
  }
  std::ostringstream text;
  text << value << " is not a positive number that float32 has";
  throw ConfigError(where + "/" + std::string(option), text.str());
}

// A probability that leaves something: 0 <= value < 1.
inline void CheckDropout(double value, const std::string& where, std::string_view option) {
  if (value >= 0 && value < 1) return;
  throw ConfigError(where + "/" + std::string(option), std::to_string(value) + " is not in [0, 1)");
}

// total / parts; throws when it is not a whole positive number.
inline std::int64_t DivideExactly(std::int64_t total, std::int64_t parts, const std::string& where,
                                  std::string_view option, std::string_view what_total) {
  CheckRange(parts, 1, 1 << 20, where, option);
  if (total >= parts && total % parts == 0) return total / parts;
  throw ConfigError(where + "/" + std::string(option), std::to_string(parts) + " does not divide " +
                                                           std::string(what_total) + " " +
                                                           std::to_string(total));
}

// expand * d_model as a whole number of channels, split over the heads.
inline std::int64_t ExpandedHeadDim(double expand, std::int64_t d_model, std::int64_t num_heads,
                                    const std::string& where, std::string_view option) {
  const double total = expand * static_cast<double>(d_model);
  const double head_dim = total / static_cast<double>(num_heads);
  const auto rounded = static_cast<std::int64_t>(std::llround(head_dim));
  if (rounded > 0 && std::abs(head_dim - static_cast<double>(rounded)) < 1e-9) return rounded;
  throw ConfigError(where + "/" + std::string(option),
                    "d_model " + std::to_string(d_model) + " times " + std::to_string(expand) +
                        " is not a multiple of num_heads " + std::to_string(num_heads));
}

}  // namespace mixerbench::models
