// How many lines a panel holds, and what becomes of those that would hold more.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <utility>

#include "reports/view/figure_parts.h"
#include "reports/view/mixer_list.h"

namespace mixerbench::reports {
namespace {

// Each once, in the order in which they are drawn.
std::vector<int> MixersOf(const Panel& panel) {
  std::vector<int> drawn;
  for (const Series& series : panel.series) {
    if (std::find(drawn.begin(), drawn.end(), series.mixer) == drawn.end()) {
      drawn.push_back(series.mixer);
    }
  }
  return drawn;
}

// A panel with the same axes that has the series of these mixers; lines of the others are grey
// behind them.
Panel PanelOf(const std::vector<int>& mixers, const Panel& panel) {
  Panel own = panel;
  own.series.clear();
  for (const Series& series : panel.series) {
    if (std::find(mixers.begin(), mixers.end(), series.mixer) != mixers.end()) {
      own.series.push_back(series);
    } else if (series.form == Series::Form::kLine) {
      own.context.push_back(series.marks);
    }
  }
  return own;
}

Panel SmallPanelOf(int mixer, const std::string& title, const Panel& panel) {
  Panel own = PanelOf({mixer}, panel);
  own.title = title;
  own.is_small = true;
  own.height = 0;
  own.names = Panel::Names::kHidden;
  for (Reference& reference : own.references) reference.label.clear();
  for (Shade& shade : own.shades) shade.label.clear();
  return own;
}

// Whether some mark of the series is beaten by none: another one that is as good on both axes and
// better on one.
bool IsOnFrontier(const Series& series, const Panel& panel, Better better) {
  const auto beats = [&](const Mark& a, const Mark& b) {
    const double x = better.is_low_x ? b.x - a.x : a.x - b.x;
    const double y = better.is_low_y ? b.y - a.y : a.y - b.y;
    return a.failed.empty() && x >= 0 && y >= 0 && (x > 0 || y > 0);
  };
  return std::any_of(series.marks.begin(), series.marks.end(), [&](const Mark& mark) {
    if (!mark.failed.empty()) return false;
    return std::none_of(panel.series.begin(), panel.series.end(), [&](const Series& other) {
      return std::any_of(other.marks.begin(), other.marks.end(),
                         [&](const Mark& rival) { return beats(rival, mark); });
    });
  });
}

std::string Under(const std::string& title, const std::string& second) {
  return title + (second.empty() ? "" : "\n" + second);
}

}  // namespace

void SayLeftOut(std::size_t num_drawn, std::size_t num_all, const std::string& what,
                std::vector<std::string>& caption) {
  if (num_drawn >= num_all) return;
  caption.push_back(
      fmt::format("The first {} of {} {}; report.json has all.", num_drawn, num_all, what));
}

std::vector<Panel> FamilyPanels(const Panel& panel, const std::vector<MixerStyle>& styles,
                                const std::string& second, Panel::Names names) {
  std::map<std::string, std::vector<int>> families;
  for (const int mixer : MixersOf(panel)) {
    families[styles[static_cast<std::size_t>(mixer)].family].push_back(mixer);
  }
  std::vector<Panel> panels;
  for (const auto& [family, members] : families) {
    const std::size_t num_parts = (members.size() + kMaxInOneChart - 1) / kMaxInOneChart;
    const std::size_t per_part = (members.size() + num_parts - 1) / num_parts;
    for (std::size_t part = 0; part < num_parts; ++part) {
      const auto first = members.begin() + static_cast<std::ptrdiff_t>(part * per_part);
      const auto last = members.begin() + static_cast<std::ptrdiff_t>(
                                              std::min(members.size(), (part + 1) * per_part));
      Panel own = PanelOf({first, last}, panel);
      own.title =
          Under(num_parts == 1 ? family : fmt::format("{}, {} of {}", family, part + 1, num_parts),
                second);
      own.describe += ", " + family;
      own.names = names;
      panels.push_back(std::move(own));
    }
  }
  return panels;
}

std::vector<Panel> ScatterPanels(Panel panel, Better better, const std::vector<MixerStyle>& styles,
                                 const std::string& second) {
  std::vector<Panel> panels;
  panel.names = Panel::Names::kNear;
  if (panel.series.size() <= kMaxInSmallCharts) {
    panels.push_back(std::move(panel));
  } else {
    panels = FamilyPanels(panel, styles, second, Panel::Names::kNear);
  }
  for (Panel& part : panels) {
    std::stable_partition(part.series.begin(), part.series.end(),
                          [&](const Series& series) { return IsOnFrontier(series, part, better); });
  }
  return panels;
}

void DrawPanels(const std::vector<Panel>& panels, const MixerList& mixers, Figure& figure) {
  std::vector<Panel>& out = figure.panels;
  std::size_t num_all = 0;
  for (const Panel& panel : panels) {
    const std::vector<int> drawn = MixersOf(panel);
    const std::string second = panels.size() > 1 ? panel.title : "";
    std::vector<Panel> parts;
    if (drawn.size() <= kMaxInOneChart) {
      parts.push_back(panel);
    } else if (drawn.size() <= kMaxInSmallCharts) {
      for (const int mixer : drawn) {
        parts.push_back(SmallPanelOf(mixer, Under(LabelOf(mixers, mixer), second), panel));
      }
    } else {
      parts = FamilyPanels(panel, mixers.styles(), second, Panel::Names::kEnds);
    }
    num_all += parts.size();
    if (out.size() >= kMaxPanels) continue;
    std::move(parts.begin(), parts.end(), std::back_inserter(out));
  }
  if (out.size() > 2 * kMaxPanels) out.resize(2 * kMaxPanels);
  SayLeftOut(out.size(), num_all, "charts", figure.caption);
}

}  // namespace mixerbench::reports
