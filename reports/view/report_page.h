// The page of one report, or of several that are read together.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reports/summary/sweep_report.h"
#include "reports/view/page.h"

namespace mixerbench::reports {

// The same report gives the same page. Published results beside ours: reports/published.
Page MakeReportPage(const SweepReport& report);

}  // namespace mixerbench::reports
