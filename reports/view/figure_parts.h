// What the figures of a study share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "reports/view/mixer_list.h"
#include "reports/view/page.h"
#include "reports/view/study.h"

namespace mixerbench::reports {

inline constexpr std::size_t kMaxInOneChart = 8;      // lines; beyond, a panel for each mixer
inline constexpr std::size_t kMaxInSmallCharts = 24;  // mixers; beyond, a panel for each family
inline constexpr std::size_t kMaxPanels = 24;  // of a figure; its caption says that there are more

// The axis for all accuracies of a study: log-odds when half of the means are above 95 %.
Axis AxisFor(const Study& study);

// The line from which a cell is solved, where there is such a threshold and the axis has it.
void AddThreshold(const Study& study, Panel& panel);

// Says in a caption that of `num_all` charts or settings the first `num_drawn` alone are drawn.
void SayLeftOut(std::size_t num_drawn, std::size_t num_all, const std::string& what,
                std::vector<std::string>& caption);

// A panel for each family of mixers, by name, in several parts where it has more than
// kMaxInOneChart; all have the axes of `panel` and the lines of other families in grey. `second` is
// the second line of their titles, `names` where the names of their series stand.
std::vector<Panel> FamilyPanels(const Panel& panel, const std::vector<MixerStyle>& styles,
                                const std::string& second, Panel::Names names);

// Of a caption: names that have no room are not drawn.
inline constexpr const char* kNamesWithRoom =
    "Where a name has no room, pointing at the mark tells whose it is.";

// Which end of each axis is the better one, of a chart of marks.
struct Better {
  bool is_low_x = false;
  bool is_low_y = false;
};

// A chart of marks with names beside them; of more than kMaxInSmallCharts mixers a panel for each
// family, as FamilyPanels. Names are placed in the order of the series: those come first that no
// other one beats on both axes.
std::vector<Panel> ScatterPanels(Panel panel, Better better, const std::vector<MixerStyle>& styles,
                                 const std::string& second);

// Draws `panels`; those of more than kMaxInOneChart lines become small ones, a mixer each with the
// others grey, and those of more than kMaxInSmallCharts a panel for each family. The second line
// of their titles is that of the panel. The first alone where there are too many, which the caption
// says.
void DrawPanels(const std::vector<Panel>& panels, const MixerList& mixers, Figure& figure);

// The value of a chosen key of a group.
std::optional<double> RateOf(const GroupSummary& group, const std::string& key);

Datum SliceDatum(const AccuracyOverSeeds& row);

// All values of one or two keys that the suite chooses among; with one, mixers in rows.
std::optional<HeatFigure> OverRates(const Study& study, const MixerList& mixers);
std::optional<HeatFigure> OverDepth(const Study& study, const MixerList& mixers);
std::optional<HeatFigure> OverGrid(const Study& study, const MixerList& mixers);

std::optional<Figure> StepsFigure(const Study& study, const MixerList& mixers);
std::optional<Figure> CurvesFigure(const Study& study, const MixerList& mixers);

}  // namespace mixerbench::reports
