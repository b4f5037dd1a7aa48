// Choosing the best of some settings, such as the learning rate, by what validation says of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "reports/summary/sweep_report.h"

namespace mixerbench::reports {

// Reads `sweep.select` of the suite, {"over": ["train.lr"], "by": "validation.accuracy"}, and sets
// GroupSummary::selection. Groups compete when they differ in nothing but the paths of `over`; the
// highest mean over seeds of the last validation accuracy wins, ties go to the first by name, and a
// seed that failed counts as 0. Test results play no part. Means over different seeds cannot be
// compared: while seeds of a group are missing, or groups have other seeds, its competition is
// undecided. Nothing happens without `sweep.select`.
// Throws Error(kBadInput) when the suite's form is not that.
void SelectGroups(SweepReport& report);

// The paths of `over`; empty when the suite selects nothing.
std::vector<std::string> SelectedOver(const Value& suite);

// A config without the members at these dotted paths; those that it lacks are no error.
Value Without(Value config, const std::vector<std::string>& paths);

}  // namespace mixerbench::reports
