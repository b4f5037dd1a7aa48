// What the figures of a study share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "reports/view/page.h"
#include "reports/view/study.h"

namespace mixerbench::reports {

inline constexpr std::size_t kMaxInOneChart = 8;  // lines; beyond, a panel for each mixer
inline constexpr std::size_t kMaxPanels = 24;     // of a figure; the tables have the rest

// The axis for all accuracies of a study: log-odds when half of the means are above 95 %.
Axis AxisFor(const Study& study);

// Panels of more than kMaxInOneChart lines become small ones, a mixer each with the others grey;
// the first panels only, as long as there is room.
std::vector<Panel> OneEach(const std::vector<Panel>& panels, const MixerList& mixers);

// The value of a chosen key of a group.
std::optional<double> RateOf(const GroupSummary& group, const std::string& key);

Datum SliceDatum(const AccuracyOverSeeds& row);

std::optional<Figure> StepsFigure(const Study& study, const MixerList& mixers);
std::optional<Figure> CurvesFigure(const Study& study, const MixerList& mixers);

}  // namespace mixerbench::reports
