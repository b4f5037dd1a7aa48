// The best of a column, and what the data do not tell apart from it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>

#include "reports/view/page.h"

namespace mixerbench::reports {

// From this p value on two means over seeds are not told apart.
inline constexpr double kNotTold = 0.05;

// Marks the highest of a column and what is not told apart from it: means over seeds by a
// permutation test of the seeds, others where the intervals overlap. Values of `tied` and more
// count as equal. One with a failed seed in it is not marked, even where it is the highest.
void MarkHighest(Table& table, std::size_t column, std::optional<double> tied = std::nullopt);

// Marks the lowest of a column wherever it stands.
void MarkLowest(Table& table, std::size_t column);

}  // namespace mixerbench::reports
