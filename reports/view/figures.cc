// Accuracy over size, state and slices. Heat tables, speed of learning and of kernels: other files.
// SPDX-License-Identifier: Apache-2.0
#include "reports/view/figures.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <functional>
#include <map>
#include <set>
#include <tuple>

#include "io/json.h"
#include "reports/view/cell_parts.h"
#include "reports/view/datums.h"
#include "reports/view/figure_parts.h"
#include "reports/view/numbers.h"

namespace mixerbench::reports {
namespace {

// One place on the x axis of an accuracy chart.
struct Place {
  std::size_t setting = 0;
  std::size_t segment = 0;
  std::string label;
};

struct PlaceList {
  std::string title;
  std::vector<Place> places;
};

// What is compared along x, and the panels: segments, else the size of the task, else any axis.
std::vector<PlaceList> PlacesOf(const Study& study) {
  std::vector<PlaceList> panels;
  if (study.segments.size() > 1) {
    for (std::size_t s = 0; s < study.settings.size(); ++s) {
      PlaceList list{.title = study.settings[s].text, .places = {}};
      for (std::size_t g = 0; g < study.segments.size(); ++g) {
        list.places.push_back({s, g, SegmentText(study.segments[g], "\n")});
      }
      panels.push_back(std::move(list));
    }
    return panels;
  }
  if (study.axes.empty()) return {};
  std::map<std::vector<int>, PlaceList> by_rest;
  for (std::size_t s = 0; s < study.settings.size(); ++s) {
    std::vector<int> rest(study.settings[s].at.begin() + 1, study.settings[s].at.end());
    PlaceList& list = by_rest[rest];
    list.title.clear();
    for (std::size_t i = 1; i < study.axes.size(); ++i) {
      list.title += (list.title.empty() ? "" : ", ") +
                    AxisText(study.axes[i], static_cast<std::size_t>(study.settings[s].at[i]));
    }
    list.places.push_back(
        {s, 0, AxisText(study.axes[0], static_cast<std::size_t>(study.settings[s].at[0]), "\n")});
  }
  for (auto& [rest, list] : by_rest) panels.push_back(std::move(list));
  return panels;
}

std::size_t NumImputed(const AccuracyOverSeeds& row) {
  return static_cast<std::size_t>(std::count(row.imputed.begin(), row.imputed.end(), true));
}

// Lines through the means; marks with intervals, or one for each of a few seeds.
Series AccuracySeries(const Study& study, const MixerList& mixers, int mixer,
                      const PlaceList& list) {
  Series series{.mixer = mixer, .has_name = true};
  for (std::size_t i = 0; i < list.places.size(); ++i) {
    const GroupSummary* group = study.Shown(mixer, list.places[i].setting);
    if (!group) continue;
    const Datum datum = AccuracyDatum(study, group, list.places[i].segment);
    const auto* row = RowAt(study, *group, list.places[i].segment);
    Mark mark{.x = static_cast<double>(i)};
    mark.note =
        LabelOf(mixers, mixer) + ": " + datum.text + (datum.value ? " %" : "") + "\n" + datum.note;
    if (!datum.value) {
      if (!IsFailure(datum.state)) continue;
      mark.failed = std::string(NameOf(datum.state));
      mark.y = row ? row->chance : 0;
      series.marks.push_back(std::move(mark));
      continue;
    }
    mark.y = *datum.value;
    mark.low = datum.low;
    mark.high = datum.high;
    // Of some failed seeds the crosses stand apart; of all, nothing else is there.
    if (row && NumImputed(*row) == row->per_seed.size()) {
      mark.failed = std::string(NameOf(row->state));
      mark.y = row->chance;
    }
    if (row && row->ci_seeds) series.has_band = true;
    series.marks.push_back(std::move(mark));
  }
  return series;
}

// The single seeds where there are too few for an interval.
Series SeedMarks(const Study& study, int mixer, const PlaceList& list) {
  Series series{.mixer = mixer, .form = Series::Form::kMarks};
  for (std::size_t i = 0; i < list.places.size(); ++i) {
    const GroupSummary* group = study.Shown(mixer, list.places[i].setting);
    const auto* row = group ? RowAt(study, *group, list.places[i].segment) : nullptr;
    if (!row || row->per_seed.size() < 2 || row->ci_seeds) continue;
    for (std::size_t s = 0; s < row->per_seed.size(); ++s) {
      if (!row->per_seed[s] || row->imputed[s]) continue;
      series.marks.push_back(
          {.x = static_cast<double>(i),
           .y = *row->per_seed[s],
           .note = fmt::format("seed {}: {} %", group->seeds[s], Percent(row->per_seed[s]))});
    }
  }
  return series;
}

// Seeds that failed beside others that did not: at what each counts as in the mean.
Series FailedSeeds(const Study& study, const MixerList& mixers, int mixer, const PlaceList& list) {
  Series series{.mixer = mixer, .form = Series::Form::kMarks};
  for (std::size_t i = 0; i < list.places.size(); ++i) {
    const GroupSummary* group = study.Shown(mixer, list.places[i].setting);
    const auto* row = group ? RowAt(study, *group, list.places[i].segment) : nullptr;
    const std::size_t num_failed = row ? NumImputed(*row) : 0;
    if (num_failed == 0 || num_failed == row->per_seed.size()) continue;
    const std::string state(NameOf(row->state));
    series.marks.push_back(
        {.x = static_cast<double>(i),
         .y = row->chance,
         .note = fmt::format("{}: {} of {} seeds failed ({}) and count as chance",
                             LabelOf(mixers, mixer), num_failed, row->per_seed.size(), state),
         .failed = state});
  }
  return series;
}

// The guessers at a place, chance first.
std::vector<Guess> GuessesAt(const Study& study, const Place& place) {
  for (const int mixer : study.mixers) {
    const GroupSummary* group = study.Shown(mixer, place.setting);
    const auto* row = group ? RowAt(study, *group, place.segment) : nullptr;
    if (!row) continue;
    return row->guesses.empty() ? std::vector<Guess>{{"chance", row->chance}} : row->guesses;
  }
  return {};
}

// A short dash at each place, since what guessing reaches may depend on it. Guessers below the axis
// are left out: at its foot they would read as what they are not.
void AddGuessLines(const Study& study, const PlaceList& list, Panel& panel) {
  std::set<std::string> named;
  for (std::size_t i = 0; i < list.places.size(); ++i) {
    for (const Guess& guess : GuessesAt(study, list.places[i])) {
      if (guess.accuracy < panel.y.low) continue;
      const double x = static_cast<double>(i);
      const bool is_new = named.insert(guess.name).second;
      panel.references.push_back(
          {.y = guess.accuracy, .label = is_new ? guess.name : "", .x0 = x - 0.3, .x1 = x + 0.3});
    }
  }
}

Panel AccuracyPanel(const Study& study, const MixerList& mixers, const PlaceList& list,
                    const Axis& y) {
  std::vector<std::string> names;
  for (const Place& place : list.places) names.push_back(place.label);
  Panel panel{.title = list.title,
              .describe = "Accuracy of " + Plural(static_cast<int>(study.mixers.size()), "mixer") +
                          (list.title.empty() ? "" : " at " + list.title) +
                          "; the numbers are in the table",
              .x = NameAxis(names, ""),
              .y = y};
  const auto is_extrapolated = [&](const Place& place) {
    return IsExtrapolated(study, place.setting, place.segment);
  };
  for (std::size_t i = 1; i < list.places.size(); ++i) {
    if (!is_extrapolated(list.places[i]) || is_extrapolated(list.places[i - 1])) continue;
    panel.shades.push_back({.x0 = static_cast<double>(i) - 0.5, .label = "longer than trained"});
  }
  if (const double stop = EarlyStop(study); stop > 0 && y.scale == Axis::Scale::kOdds) {
    panel.shades.push_back({.y0 = stop});
  }
  AddGuessLines(study, list, panel);
  AddThreshold(study, panel);
  for (const int mixer : study.mixers) {
    Series series = AccuracySeries(study, mixers, mixer, list);
    Series seeds = SeedMarks(study, mixer, list);
    if (!seeds.marks.empty()) series.has_marks = false;
    if (!series.marks.empty()) panel.series.push_back(std::move(series));
    if (!seeds.marks.empty()) panel.series.push_back(std::move(seeds));
    Series failed = FailedSeeds(study, mixers, mixer, list);
    if (!failed.marks.empty()) panel.series.push_back(std::move(failed));
  }
  panel.names = Panel::Names::kEnds;
  panel.height = 285;
  return panel;
}

std::optional<Figure> OverSize(const Study& study, const MixerList& mixers) {
  std::vector<PlaceList> lists = PlacesOf(study);
  std::erase_if(lists, [](const PlaceList& list) { return list.places.size() < 2; });
  if (lists.empty()) return std::nullopt;
  const Axis y = AxisFor(study);
  Figure figure{
      .title = "Accuracy over " + std::string(study.segments.size() > 1 ? "length" : "size"),
      .caption = {},
      .panels = {}};
  if (study.segments.size() == 1 && !study.axes.empty() && !study.axes[0].is_task) {
    figure.title = "Accuracy over " + study.axes[0].keys.front();
  }
  figure.caption.push_back(
      std::string(study.chosen_keys.empty() ? "" : "The chosen setting of each mixer. ") +
      "Bars and bands: 95 % interval; over seeds from five on, else over items, or single seeds as "
      "marks.");
  if (y.scale == Axis::Scale::kOdds) {
    figure.caption.push_back(
        "The axis is stretched near 100 %, where mixers differ. Shaded: past the early stop, or "
        "longer than trained; heights there are no limits of a mixer.");
  }
  figure.caption.push_back(
      "Dotted: what guessers reach, and from where a cell is solved, each where it lies on the "
      "axis. A red cross: a failed seed counts as chance.");
  std::vector<Panel> panels;
  for (const PlaceList& list : lists) panels.push_back(AccuracyPanel(study, mixers, list, y));
  DrawPanels(panels, mixers, figure);
  return figure;
}

// "64 tokens, 4 pairs" of places on the first axes.
std::string SizeText(const Study& study, const std::vector<int>& at) {
  std::string text;
  for (std::size_t i = 0; i < at.size(); ++i) {
    text += (text.empty() ? "" : ", ") + AxisText(study.axes[i], static_cast<std::size_t>(at[i]));
  }
  return text;
}

// Accuracy on the longest segment over the bytes of state; one panel for each size of the task.
std::optional<Figure> OverState(const Study& study, const MixerList& mixers) {
  std::map<std::vector<int>, std::map<int, Series>> by_task;  // by the task's axes, then mixer
  std::set<double> sizes;
  const auto num_task_axes =
      std::count_if(study.axes.begin(), study.axes.end(),
                    [](const SettingAxis& axis) { return axis.is_task; });  // the first ones
  for (std::size_t s = 0; s < study.settings.size(); ++s) {
    for (const int mixer : study.mixers) {
      const GroupSummary* group = study.Shown(mixer, s);
      if (!group) continue;
      const auto* row = RowAt(study, *group, study.segments.size() - 1);
      if (!row || !row->mean) continue;
      for (const CellResult& cell : CellsOf(*study.report, *group)) {
        const double bytes = static_cast<double>(cell.model.state_bytes_measured);
        if (cell.model.state_at_num_tokens == 0 || bytes <= 0) continue;
        sizes.insert(bytes);
        Series& series =
            by_task[{study.settings[s].at.begin(), study.settings[s].at.begin() + num_task_axes}]
                .try_emplace(mixer,
                             Series{.mixer = mixer, .form = Series::Form::kThin, .has_name = true})
                .first->second;
        series.marks.push_back(
            {.x = bytes,
             .y = *row->mean,
             .note = fmt::format("{}, {}\n{}: {} %", LabelOf(mixers, mixer), study.settings[s].text,
                                 Bytes(bytes), Percent(row->mean))});
        break;
      }
    }
  }
  if (sizes.size() < 2) return std::nullopt;
  Figure figure{
      .title = "Accuracy at matched state",
      .caption = {"What one sequence carries from token to token, measured. Left and up is "
                  "better; compare mixers at equal state.",
                  kNamesWithRoom},
      .panels = {}};
  if (study.segments.size() > 1) {
    figure.caption.push_back("At " + SegmentText(study.segments.back()) + ".");
  }
  std::size_t num_all = 0;
  for (auto& [task, by_mixer] : by_task) {
    Panel panel{.title = SizeText(study, task),
                .describe = "Accuracy over measured bytes of state",
                .x = {.label = "state per sequence",
                      .scale = Axis::Scale::kLog,
                      .low = *sizes.begin() / 1.5,
                      .high = *sizes.rbegin() * 1.5},
                .y = AxisFor(study)};
    panel.x.ticks = ByteTicks(panel.x.low, panel.x.high);
    for (auto& [mixer, series] : by_mixer) {
      std::sort(series.marks.begin(), series.marks.end(),
                [](const Mark& a, const Mark& b) { return a.x < b.x; });
      panel.series.push_back(std::move(series));
    }
    if (const double stop = EarlyStop(study); stop > 0 && panel.y.scale == Axis::Scale::kOdds) {
      panel.shades.push_back({.y0 = stop});
    }
    AddThreshold(study, panel);
    panel.height = 270;
    const std::string second = by_task.size() > 1 ? panel.title : "";
    std::vector<Panel> parts =
        ScatterPanels(std::move(panel), {.is_low_x = true}, mixers.styles(), second);
    num_all += parts.size();
    if (figure.panels.size() >= kMaxPanels) continue;
    std::move(parts.begin(), parts.end(), std::back_inserter(figure.panels));
  }
  SayLeftOut(figure.panels.size(), num_all, "charts", figure.caption);
  if (study.mixers.size() > kMaxInOneChart && study.mixers.size() <= kMaxInSmallCharts) {
    figure.legend = study.mixers;
  }
  return figure;
}

// Slices of the segments in which some mixer falls below 99 %.
std::optional<Figure> OverSlices(const Study& study, const MixerList& mixers) {
  constexpr double kAllRight = 0.99;
  Figure figure{
      .title = "Where accuracy is lost",
      .caption = {"Marks: means over seeds, in parts of a segment. Only segments in which "
                  "some mixer falls below 99 % are drawn."},
      .panels = {}};
  std::vector<Panel> panels;
  for (std::size_t s = 0; s < study.settings.size(); ++s) {
    using Key = std::tuple<std::size_t, std::string, std::string>;  // place, segment, slice
    std::map<Key, Panel> by_slice;
    std::map<Key, std::vector<std::string>> buckets;
    std::set<std::string> poor;
    for (const int mixer : study.mixers) {
      const GroupSummary* group = study.Shown(mixer, s);
      if (!group) continue;
      for (const AccuracyOverSeeds& row : group->accuracy) {
        const std::string segment = SegmentText(row.axes);
        if (row.slice.empty() && row.mean && *row.mean < kAllRight) poor.insert(segment);
        if (row.slice.empty() || row.slice == "depth") continue;
        // In the order of the study: as texts 10 tokens come before 2.
        const auto place = std::find(study.segments.begin(), study.segments.end(), row.axes);
        const Key key(place - study.segments.begin(), segment, row.slice);
        auto& names = buckets[key];
        auto found = std::find(names.begin(), names.end(), row.bucket);
        if (found == names.end()) found = names.insert(names.end(), row.bucket);
        Panel& panel = by_slice[key];
        if (panel.series.empty() || panel.series.back().mixer != mixer) {
          panel.series.push_back({.mixer = mixer, .has_name = true});
        }
        if (!row.mean) continue;
        panel.series.back().marks.push_back(
            {.x = static_cast<double>(found - names.begin()),
             .y = *row.mean,
             .note = fmt::format("{}, {} {}: {} %", LabelOf(mixers, mixer), row.slice, row.bucket,
                                 Percent(row.mean))});
      }
    }
    for (auto& [key, panel] : by_slice) {
      const auto& [place, segment, slice] = key;
      if (!poor.contains(segment) || buckets[key].size() < 2) continue;
      const std::string& setting = study.settings[s].text;
      panel.title = "by " + slice;
      const char* between = ": ";
      for (const std::string& part : {study.segments.size() > 1 ? segment : "", setting}) {
        if (part.empty()) continue;
        panel.title += between + part;
        between = ", ";
      }
      panel.describe = "Accuracy " + panel.title;
      panel.x = NameAxis(buckets[key], "");
      panel.y = AxisFor(study);
      panel.names = Panel::Names::kEnds;
      panels.push_back(std::move(panel));
    }
  }
  if (panels.empty()) return std::nullopt;
  DrawPanels(panels, mixers, figure);
  return figure;
}

}  // namespace

std::vector<Block> TrainingFigures(const Study& study, const MixerList& mixers) {
  std::vector<Block> blocks;
  const auto add = [&](auto figure) {
    if (figure) blocks.emplace_back(std::move(*figure));
  };
  add(OverSize(study, mixers));
  add(OverGrid(study, mixers));
  add(OverDepth(study, mixers));
  add(OverRates(study, mixers));
  add(StepsFigure(study, mixers));
  add(CurvesFigure(study, mixers));
  add(OverState(study, mixers));
  add(OverSlices(study, mixers));
  return blocks;
}

}  // namespace mixerbench::reports
