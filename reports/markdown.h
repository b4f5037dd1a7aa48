// A sweep as Markdown tables, for pull requests and notes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "reports/sweep_report.h"

namespace mixerbench::reports {

// For each task a table of mixer x segment (accuracy in percent with the interval over seeds,
// chance in its own row), throughput tables, and a line for every cell that did not complete.
std::string RenderMarkdown(const SweepReport& report);

}  // namespace mixerbench::reports
