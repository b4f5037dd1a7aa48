// Accuracy as heat tables: over rates, over depth and length, over two sizes.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>

#include "io/json.h"
#include "reports/view/cell_parts.h"
#include "reports/view/datums.h"
#include "reports/view/figure_parts.h"
#include "reports/view/mixer_list.h"
#include "reports/view/numbers.h"
#include "reports/view/study.h"

namespace mixerbench::reports {
namespace {

Datum HeatDatum(const Study& study, const GroupSummary* group, std::size_t segment) {
  Datum datum = AccuracyDatum(study, group, segment);
  if (datum.value) datum.text = Percent(datum.value, 1);
  datum.sub.clear();
  return datum;
}

// The cell of a choice at these values of its keys.
Datum ChoiceDatum(const Study& study, const StudyCell& cell,
                  const std::map<std::string, double>& values) {
  Datum datum;
  datum.state = CellState::kPlanned;
  for (const GroupSummary* group : cell.all) {
    if (group->phase == CellPhase::kReport) continue;
    const bool is_here = std::all_of(values.begin(), values.end(), [&](const auto& item) {
      return RateOf(*group, item.first) == item.second;
    });
    if (!is_here) continue;
    datum = HeatDatum(study, group, study.segments.size() - 1);
    datum.is_chosen = group->selection && group->selection->selected;
  }
  return datum;
}

std::set<double> RatesOf(const StudyCell& cell, const std::string& key) {
  std::set<double> rates;
  for (const GroupSummary* group : cell.all) {
    if (const auto rate = RateOf(*group, key)) rates.insert(*rate);
  }
  return rates;
}

// The figure of a choice among `keys`, without its heats.
HeatFigure FigureOfChoice(const Study& study, const std::string& keys) {
  const bool has_fresh_seeds = !study.report->reseeds.empty();
  HeatFigure figure{
      .title = "Accuracy at every " + keys,
      .caption = {has_fresh_seeds
                      ? "By the seeds that chose. Outlined: the highest validation accuracy; the "
                        "other figures show that setting by its fresh seeds."
                      : "All cells. Outlined: the one with the highest validation accuracy, "
                        "which the other figures show."},
      .heats = {}};
  if (study.segments.size() > 1) {
    figure.caption.push_back("At " + SegmentText(study.segments.back()) + ".");
  }
  return figure;
}

// A choice among two values, such as rate and weight decay: a grid for each mixer and setting.
std::optional<HeatFigure> OverTwoRates(const Study& study, const MixerList& mixers) {
  const std::string& across = study.chosen_keys[0];
  const std::string& down = study.chosen_keys[1];
  HeatFigure figure = FigureOfChoice(study, across + " and " + down);
  std::size_t num_all = 0;
  for (std::size_t s = 0; s < study.settings.size(); ++s) {
    for (const int mixer : study.mixers) {
      const StudyCell* cell = study.At(mixer, s);
      if (!cell) continue;
      const std::set<double> columns = RatesOf(*cell, across), rows = RatesOf(*cell, down);
      if (columns.size() * rows.size() < 2 || ++num_all > kMaxPanels) continue;
      Heat heat{.title = LabelOf(mixers, mixer),
                .corner = down + " / " + across,
                .columns = {},
                .rows = {}};
      if (study.settings.size() > 1) heat.title += ", " + study.settings[s].text;
      for (const double column : columns) heat.columns.push_back(RateText(column));
      for (const double row : rows) {
        std::vector<Datum> data;
        for (const double column : columns) {
          data.push_back(ChoiceDatum(study, *cell, {{across, column}, {down, row}}));
        }
        heat.rows.emplace_back(RateText(row), std::move(data));
      }
      figure.heats.push_back(std::move(heat));
    }
  }
  if (figure.heats.empty()) return std::nullopt;
  SayLeftOut(figure.heats.size(), num_all, "charts", figure.caption);
  return figure;
}

std::optional<double> NumberAt(const Object& axes, const std::string& key) {
  const auto found = axes.find(key);
  if (found == axes.end() || !found->second.is_number()) return std::nullopt;
  return found->second.as_double();
}

}  // namespace

// All rates of a choice, or all values of an axis beside the task's.
std::optional<HeatFigure> OverRates(const Study& study, const MixerList& mixers) {
  if (study.chosen_keys.size() == 2) return OverTwoRates(study, mixers);
  if (study.chosen_keys.size() != 1) return std::nullopt;
  const std::string& key = study.chosen_keys.front();
  HeatFigure figure = FigureOfChoice(study, key);
  std::size_t num_all = 0;
  for (std::size_t s = 0; s < study.settings.size(); ++s) {
    std::set<double> rates;
    for (const int mixer : study.mixers) {
      if (const StudyCell* cell = study.At(mixer, s)) rates.merge(RatesOf(*cell, key));
    }
    if (rates.size() < 2 || ++num_all > kMaxPanels) continue;
    Heat heat{.title = study.settings[s].text, .corner = key, .columns = {}, .rows = {}};
    for (const double rate : rates) heat.columns.push_back(RateText(rate));
    for (const int mixer : study.mixers) {
      const StudyCell* cell = study.At(mixer, s);
      if (!cell) continue;
      std::vector<Datum> row;
      for (const double rate : rates) {
        row.push_back(ChoiceDatum(study, *cell, {{key, rate}}));
      }
      heat.rows.emplace_back(LabelOf(mixers, mixer), std::move(row));
    }
    figure.heats.push_back(std::move(heat));
  }
  if (figure.heats.empty()) return std::nullopt;
  SayLeftOut(figure.heats.size(), num_all, "settings", figure.caption);
  return figure;
}

// "10-20" before "20-30", and both before what is no number.
bool LessDeep(const std::string& a, const std::string& b) {
  const auto x = LeadingNumberOf(a), y = LeadingNumberOf(b);
  return x && y && x->value != y->value ? x->value < y->value : std::pair(!x, a) < std::pair(!y, b);
}

// Depth x length, where a task slices by depth; one table for each mixer.
std::optional<HeatFigure> OverDepth(const Study& study, const MixerList& mixers) {
  HeatFigure figure{
      .title = "Accuracy over depth and length",
      .caption = {"Depth: where in the text the answer stands, 0 % is its beginning."},
      .heats = {}};
  std::size_t num_all = 0;
  for (const int mixer : study.mixers) {
    for (std::size_t s = 0; s < study.settings.size(); ++s) {
      const GroupSummary* group = study.Shown(mixer, s);
      if (!group) continue;
      std::vector<std::string> buckets;
      std::map<double, std::map<std::string, const AccuracyOverSeeds*>> by_length;
      for (const AccuracyOverSeeds& row : group->accuracy) {
        const auto length = NumberAt(row.axes, "input_seq_len");
        if (row.slice != "depth" || !length) continue;
        by_length[*length].try_emplace(row.bucket, &row);
        if (std::find(buckets.begin(), buckets.end(), row.bucket) == buckets.end()) {
          buckets.push_back(row.bucket);
        }
      }
      if (buckets.size() < 2 || by_length.empty() || ++num_all > kMaxPanels) continue;
      std::sort(buckets.begin(), buckets.end(), LessDeep);  // a length may lack one
      Heat heat{.title = LabelOf(mixers, mixer), .corner = "depth", .columns = {}, .rows = {}};
      if (study.settings.size() > 1) heat.title += ", " + study.settings[s].text;
      for (const auto& [length, rows] : by_length) heat.columns.push_back(Count(length));
      for (const std::string& bucket : buckets) {
        std::vector<Datum> data;
        for (const auto& [length, rows] : by_length) {
          Datum datum;
          datum.state = CellState::kPlanned;
          if (const auto found = rows.find(bucket); found != rows.end()) {
            datum = SliceDatum(*found->second);
          }
          data.push_back(std::move(datum));
        }
        heat.rows.emplace_back(bucket, std::move(data));
      }
      figure.heats.push_back(std::move(heat));
    }
  }
  if (figure.heats.empty()) return std::nullopt;
  SayLeftOut(figure.heats.size(), num_all, "charts", figure.caption);
  return figure;
}

// A grid of two sizes, such as length and pairs, that vary apart from each other.
std::optional<HeatFigure> OverGrid(const Study& study, const MixerList& mixers) {
  std::map<std::string, std::set<double>> values;
  for (const Object& axes : study.segments) {
    for (const auto& [key, value] : axes) {
      if (value.is_number()) values[key].insert(value.as_double());
    }
  }
  std::erase_if(values, [](const auto& item) { return item.second.size() < 2; });
  if (values.size() != 2) return std::nullopt;
  const auto& [across, columns] = *values.begin();
  const auto& [down, rows] = *values.rbegin();
  if (study.segments.size() <= std::max(columns.size(), rows.size())) return std::nullopt;
  HeatFigure figure{
      .title = "Accuracy over " + across + " and " + down, .caption = {}, .heats = {}};
  std::size_t num_all = 0;
  for (const int mixer : study.mixers) {
    const GroupSummary* group = study.Shown(mixer, 0);
    if (!group || ++num_all > kMaxPanels) continue;
    Heat heat{.title = LabelOf(mixers, mixer), .corner = down, .columns = {}, .rows = {}};
    for (const double column : columns)
      heat.columns.push_back(PartText(across, io::DumpJson(column)));
    for (const double row : rows) {
      std::vector<Datum> data;
      for (const double column : columns) {
        Datum datum;
        datum.state = CellState::kPlanned;
        for (std::size_t g = 0; g < study.segments.size(); ++g) {
          if (NumberAt(study.segments[g], across) == column &&
              NumberAt(study.segments[g], down) == row) {
            datum = HeatDatum(study, group, g);
          }
        }
        data.push_back(std::move(datum));
      }
      heat.rows.emplace_back(Significant(row), std::move(data));
    }
    figure.heats.push_back(std::move(heat));
  }
  SayLeftOut(figure.heats.size(), num_all, "charts", figure.caption);
  return figure;
}

}  // namespace mixerbench::reports
