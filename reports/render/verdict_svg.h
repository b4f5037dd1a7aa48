// Signs of verdicts, and intervals on an axis that a table's header draws once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "reports/view/page.h"

namespace mixerbench::reports {

// A disc with the sign of a verdict ("pass", "regression", ...); nothing acts on colour alone.
std::string RenderSign(const std::string& verdict, bool is_large = false);

// The interval with its value; the zone is shaded, ends beyond the axis are arrows.
std::string RenderInterval(const IntervalPlot& plot, const Axis& axis, const std::string& verdict);

// The ticks of such a column.
std::string RenderIntervalAxis(const Axis& axis);

}  // namespace mixerbench::reports
