// Several reports as one, in the form that a run folder has whose plan merged several suites.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "reports/summary/sweep_report.h"

namespace mixerbench::reports {

// All cells, summarised anew: seeds of one setting that lie in several folders are one group, and
// settings are chosen where all suites choose alike. A cell that several reports have (by its run
// id) is that of the first that has a result of it. One report stays as it is; none is a logic
// error.
SweepReport MergeReports(std::vector<SweepReport> reports);

}  // namespace mixerbench::reports
