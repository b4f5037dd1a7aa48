// A chart of the view model as inline SVG. Colours come from the style sheet of the page, so that
// one drawing serves light, dark and print.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "reports/view/page.h"

namespace mixerbench::reports {

std::string RenderPanel(const Panel& panel, const std::vector<MixerStyle>& mixers);

// The line and marker of a mixer, for tables and legends.
std::string RenderSwatch(const MixerStyle& style);

// A band on an axis of ranks.
std::string RenderRank(const RankBand& rank);

// Positions near the targets, in their order, at least `gap` apart, inside [low, high]: isotonic
// regression. Exposed for its test.
std::vector<double> SpreadApart(const std::vector<double>& targets, double gap, double low,
                                double high);

}  // namespace mixerbench::reports
