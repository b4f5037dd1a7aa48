// Which charts a report shows: from summaries to the values of reports/svg.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "reports/labels.h"
#include "reports/svg.h"
#include "reports/sweep_report.h"

namespace mixerbench::reports {

// `styles` gives every label its colour (LabelStyles).
using Styles = std::map<std::string, int>;

// Accuracy along every numeric axis that varies between the segments of a task, one chart each.
std::vector<Chart> AccuracyCharts(const TaskView& view, const Styles& styles);

// Accuracy on the longest segment against the bytes of state. Empty without state sizes.
std::vector<Chart> StateCharts(const SweepReport& report, const TaskView& view,
                               const Styles& styles);

// Small multiples: accuracy by bucket of a slice, one chart per segment that has buckets.
std::vector<Chart> SliceCharts(const TaskView& view, const Styles& styles);

// Validation accuracy and training loss over steps, one line per seed.
std::vector<Chart> LearningCharts(const SweepReport& report, const TaskView& view,
                                  const Styles& styles);

// Tokens per second over the length of the sequence, one chart per phase.
std::vector<Chart> ThroughputCharts(const SweepReport& report, const TaskView& view,
                                    const Styles& styles);

}  // namespace mixerbench::reports
