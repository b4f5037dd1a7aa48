// Tables of what was done with the weights of trainings.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "reports/summary/sweep_report.h"
#include "reports/view/mixer_list.h"
#include "reports/view/page.h"

namespace mixerbench::reports {

// Of cells that evaluate: a row for each setting and segment. Nothing when there are none.
std::optional<Table> EvaluationTable(const SweepReport& report, const MixerList& mixers);

// Of cells that analyse: a row for each setting, segment, tap and place in the model.
std::optional<Table> TapTable(const SweepReport& report, const MixerList& mixers);

}  // namespace mixerbench::reports
