// The points of a suite's sweep.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "base/value.h"

namespace mixerbench::harness {

// Of a suite, and so of its points.
inline constexpr std::size_t kMaxCells = 100'000;

struct SweepPoint {
  Object document;                                        // with the point's values in place
  std::vector<std::pair<std::string, std::string>> axes;  // path and text, for the cell's name
};

// Checks that every condition of "/sweep/exclude" names an axis and one of its values. Apart from
// ExpandSweep because --set may replace an axis, whose conditions then hold for no point.
void CheckExclude(const Object& document);

// Expands "/sweep" of a suite: the product of `grid`, times the paired lists of each `zip`, less
// what `exclude` names. Paths inside other ones are set after them, in every order of factors.
// Without a sweep the document is the one point. Throws ConfigError.
std::vector<SweepPoint> ExpandSweep(const Object& document);

}  // namespace mixerbench::harness
