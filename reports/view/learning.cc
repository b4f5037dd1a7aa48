// Speed of learning and learning curves; and what the figures of a study share.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <iterator>
#include <map>
#include <set>

#include "reports/statistics/statistics.h"
#include "reports/view/cell_parts.h"
#include "reports/view/figure_parts.h"
#include "reports/view/figures.h"
#include "reports/view/mixer_list.h"
#include "reports/view/numbers.h"
#include "reports/view/study.h"

namespace mixerbench::reports {
namespace {

// The label of a mark: "lr 1e-2, seed 3".
std::string RunText(const Study& study, const GroupSummary& group, const CellResult& cell) {
  std::string text;
  for (const std::string& key : study.chosen_keys) {
    const auto parts = PartsOf(group);
    if (const auto found = parts.find(key); found != parts.end()) {
      text += PartText(key, found->second) + ", ";
    }
  }
  return text + "seed " + std::to_string(cell.seed);
}

Panel StepsPanel(const Study& study, const MixerList& mixers, std::size_t setting, double low,
                 double high) {
  std::vector<std::string> names;
  for (auto mixer = study.mixers.rbegin(); mixer != study.mixers.rend(); ++mixer) {
    names.push_back(LabelOf(mixers, *mixer));
  }
  Panel panel{.title = study.settings[setting].text,
              .describe = "Steps to the threshold, a mark for each run",
              .x = {.label = "steps to the threshold",
                    .scale = Axis::Scale::kLog,
                    .low = low,
                    .high = high,
                    .ticks = LogTicks(low, high)},
              .y = NameAxis(names, ""),
              .has_rows = true,
              .has_never = true,
              .height = 64 + 24 * static_cast<double>(names.size())};
  panel.y.low = -0.6;
  panel.y.high = static_cast<double>(names.size()) - 0.4;
  for (std::size_t i = 0; i < study.mixers.size(); ++i) {
    const int mixer = study.mixers[i];
    const StudyCell* cell = study.At(mixer, setting);
    if (!cell) continue;
    Series series{.mixer = mixer, .form = Series::Form::kMarks};
    const double y = static_cast<double>(study.mixers.size() - 1 - i);
    for (const GroupSummary* group : cell->all) {
      for (const CellResult& run : CellsOf(*study.report, *group)) {
        if (run.state != CellState::kCompleted && !IsFailure(run.state)) continue;
        Mark mark{.x = low, .y = y};
        mark.note = LabelOf(mixers, mixer) + ", " + RunText(study, *group, run);
        mark.is_ringed = group == cell->shown && !study.chosen_keys.empty();
        if (run.state == CellState::kCompleted && run.steps_to_threshold) {
          mark.x = static_cast<double>(*run.steps_to_threshold);
          mark.note += "\n" + Count(mark.x) + " steps";
        } else {
          mark.is_never = true;
          mark.failed =
              run.state == CellState::kCompleted ? "never" : std::string(NameOf(run.state));
          mark.note +=
              fmt::format("\nnot reached in {} steps{}", Count(static_cast<double>(run.step)),
                          run.reason.empty() ? "" : ": " + run.reason);
        }
        series.marks.push_back(std::move(mark));
      }
    }
    panel.series.push_back(std::move(series));
  }
  return panel;
}

void AddCurve(const CellResult& run, Series series, Panel& panel) {
  for (const LearningPoint& point : run.learning_curve) {
    if (!point.validation_accuracy || point.step <= 0) continue;
    series.marks.push_back({.x = static_cast<double>(point.step), .y = *point.validation_accuracy});
  }
  if (series.marks.empty()) return;
  if (IsFailure(run.state)) {
    series.marks.back().failed = std::string(NameOf(run.state));
    series.marks.back().note = run.reason;
  }
  panel.series.push_back(std::move(series));
}

double StrongestGuess(const Study& study, std::size_t setting) {
  double best = 0;
  for (const int mixer : study.mixers) {
    const GroupSummary* group = study.Shown(mixer, setting);
    const auto* row = group ? RowAt(study, *group, 0) : nullptr;
    if (!row) continue;
    for (const Guess& guess : row->guesses) best = std::max(best, guess.accuracy);
  }
  return best;
}

// Validation accuracy by step.
std::map<std::int64_t, double> ValidationOf(const CellResult& run) {
  std::map<std::int64_t, double> by_step;
  for (const LearningPoint& point : run.learning_curve) {
    if (point.validation_accuracy && point.step > 0)
      by_step[point.step] = *point.validation_accuracy;
  }
  return by_step;
}

// The median over the runs of a group at every step at which one of them was validated. Runs end at
// different steps, and those that solve end first: without them the curve would be that of the
// others. What a run counts as between and after its validations is what CurvesCaption says.
std::vector<Mark> MedianCurve(const Study& study, const GroupSummary& group) {
  const auto* row = RowAt(study, group, 0);
  const double chance = row ? row->chance : 0;
  std::set<std::int64_t> steps;
  std::vector<std::pair<const CellResult*, std::map<std::int64_t, double>>> runs;
  for (const CellResult& run : CellsOf(*study.report, group)) {
    auto curve = ValidationOf(run);
    for (const auto& [step, accuracy] : curve) steps.insert(step);
    if (!curve.empty() || IsFailure(run.state)) runs.emplace_back(&run, std::move(curve));
  }
  std::vector<Mark> marks;
  for (const std::int64_t step : steps) {
    std::vector<double> values;
    for (const auto& [run, curve] : runs) {
      if (curve.empty()) {  // failed before its first validation
        values.push_back(chance);
        continue;
      }
      const auto next = curve.upper_bound(step);
      if (next == curve.begin()) continue;  // not validated yet
      const bool has_ended = step > curve.rbegin()->first;
      if (!has_ended || run->state == CellState::kCompleted) {
        values.push_back(std::prev(next)->second);
      } else if (IsFailure(run->state)) {
        values.push_back(chance);
      }
    }
    marks.push_back({.x = static_cast<double>(step), .y = Median(values)});
  }
  return marks;
}

// Thin: all runs. Thick: the chosen one, or the median of the seeds.
void AddRuns(const Study& study, const MixerList& mixers, int mixer, std::size_t setting,
             Panel& panel) {
  const StudyCell* cell = study.At(mixer, setting);
  if (!cell) return;
  for (const GroupSummary* group : cell->all) {
    for (const CellResult& run : CellsOf(*study.report, *group)) {
      AddCurve(run, {.mixer = mixer, .form = Series::Form::kThin, .has_marks = false}, panel);
    }
  }
  if (!cell->shown) return;
  Series thick{.mixer = mixer,
               .marks = MedianCurve(study, *cell->shown),
               .has_marks = false,
               .has_name = true};
  if (thick.marks.empty()) return;
  const Mark last = thick.marks.back();
  panel.series.push_back(std::move(thick));
  panel.series.push_back(
      {.mixer = mixer,
       .form = Series::Form::kMarks,
       .marks = {
           {.x = last.x,
            .y = last.y,
            .note = fmt::format("{}: {} % after {} steps{}", LabelOf(mixers, mixer),
                                Percent(last.y), Count(last.x),
                                cell->shown->seeds.size() > 1 ? ", median of the seeds" : "")}}});
}

std::vector<std::string> CurvesCaption(const Study& study) {
  const bool has_seeds = std::any_of(study.cells.begin(), study.cells.end(), [](const auto& item) {
    return item.second.shown && item.second.shown->seeds.size() > 1;
  });
  std::vector<std::string> caption;
  if (study.chosen_keys.empty()) {
    caption.emplace_back("Thin: each seed. Thick: their median.");
  } else if (has_seeds) {
    caption.emplace_back(
        "Thick: the chosen setting, the median of its seeds. Thin: all runs, same colour.");
  } else {
    caption.emplace_back("Thick: the chosen setting. Thin: the others, same colour.");
  }
  if (has_seeds) {
    caption.emplace_back(
        "In a median a seed that stopped early keeps its last value, and one that failed counts as "
        "chance from there on.");
  }
  caption.emplace_back("Steps are on a log axis. A red cross: the run failed there.");
  return caption;
}

}  // namespace

std::optional<double> RateOf(const GroupSummary& group, const std::string& key) {
  const auto parts = PartsOf(group);
  const auto found = parts.find(key);
  if (found == parts.end()) return std::nullopt;
  const auto number = LeadingNumberOf(found->second);
  return number ? std::optional(number->value) : std::nullopt;
}

Datum SliceDatum(const AccuracyOverSeeds& row) {
  Datum datum;
  datum.state = row.state;
  datum.value = row.mean;
  datum.text = row.mean ? Percent(row.mean, 1) : std::string(NameOf(row.state));
  datum.note = row.slice + " " + row.bucket + ", " + SegmentText(row.axes);
  if (!row.reason.empty()) datum.note += "\n" + row.reason;
  return datum;
}

void AddThreshold(const Study& study, Panel& panel) {
  for (const auto& [place, cell] : study.cells) {
    const double threshold = study.report->cells[cell.all.front()->first_cell].threshold;
    if (threshold <= 0) continue;
    if (threshold < panel.y.low || threshold > panel.y.high) return;
    panel.references.push_back(
        {.y = threshold, .label = "solved from " + GuessPercent(threshold) + " %"});
    return;
  }
}

Axis AxisFor(const Study& study) {
  std::size_t num = 0;
  std::size_t num_high = 0;
  double lowest = 1;
  for (const auto& [place, cell] : study.cells) {
    if (!cell.shown) continue;
    for (const AccuracyOverSeeds& row : cell.shown->accuracy) {
      if (!row.slice.empty() || !row.mean) continue;
      ++num;
      if (*row.mean > 0.95) ++num_high;
      lowest = std::min(lowest, *row.mean);
      for (const Guess& guess : row.guesses) {
        if (&guess == &row.guesses.back()) lowest = std::min(lowest, guess.accuracy);
      }
    }
  }
  return AccuracyAxis(num > 0 && 2 * num_high >= num, lowest);
}

std::optional<Figure> StepsFigure(const Study& study, const MixerList& mixers) {
  constexpr std::size_t kMaxRowsOfPanel = 24;
  double low = 1e18;
  double high = 0;
  bool has_choice = false;
  for (const auto& [place, cell] : study.cells) {
    has_choice = has_choice || cell.all.size() > 1;
    for (const GroupSummary* group : cell.all) {
      has_choice = has_choice || group->seeds.size() > 1;
      for (const CellResult& run : CellsOf(*study.report, *group)) {
        if (run.state != CellState::kCompleted || !run.steps_to_threshold) continue;
        low = std::min(low, std::max(1.0, static_cast<double>(*run.steps_to_threshold)));
        high = std::max(high, static_cast<double>(run.step));
      }
    }
  }
  if (high <= 0 || !has_choice || study.mixers.size() > kMaxRowsOfPanel) return std::nullopt;
  Figure figure{
      .title = "Speed of learning",
      .caption = {"One mark per run, and one with their number where many meet" +
                      std::string(study.chosen_keys.empty() ? "."
                                                            : "; ringed: the chosen setting.") +
                      " A cross in the zone at the right: the threshold was never reached.",
                  "Validation runs at intervals, which is the resolution of the axis."},
      .panels = {}};
  for (std::size_t s = 0; s < study.settings.size() && s < kMaxPanels / 2; ++s) {
    figure.panels.push_back(StepsPanel(study, mixers, s, low * 0.85, high * 1.1));
  }
  SayLeftOut(figure.panels.size(), study.settings.size(), "settings", figure.caption);
  return figure;
}

std::optional<Figure> CurvesFigure(const Study& study, const MixerList& mixers) {
  Figure figure{.title = "Learning curves", .caption = CurvesCaption(study), .panels = {}};
  std::vector<Panel> panels;
  const std::size_t num_drawn = std::min(study.settings.size(), kMaxPanels / 2);
  for (std::size_t s = 0; s < num_drawn; ++s) {
    Panel panel{.title = study.settings[s].text,
                .describe = "Validation accuracy over steps",
                .x = {},
                .y = AccuracyAxis(false, 0)};
    for (const int mixer : study.mixers) AddRuns(study, mixers, mixer, s, panel);
    double low = 1e18;
    double high = 0;
    std::size_t longest = 0;
    for (const Series& series : panel.series) {
      longest = std::max(longest, series.marks.size());
      for (const Mark& mark : series.marks) {
        low = std::min(low, mark.x);
        high = std::max(high, mark.x);
      }
    }
    if (longest < 2) continue;  // one evaluation is no curve
    panel.x = {.label = "optimiser steps",
               .scale = Axis::Scale::kLog,
               .low = low * 0.95,
               .high = high * 1.05,
               .ticks = LogTicks(low, high)};
    panel.y.label = "validation accuracy, %";
    AddThreshold(study, panel);
    if (const double guess = StrongestGuess(study, s); guess > 0) {
      panel.references.push_back({.y = guess, .label = "a guesser, " + GuessPercent(guess) + " %"});
    }
    panels.push_back(std::move(panel));
  }
  if (panels.empty()) return std::nullopt;
  SayLeftOut(num_drawn, study.settings.size(), "settings", figure.caption);
  DrawPanels(panels, mixers, figure);
  if (study.mixers.size() <= kMaxInOneChart) figure.legend = study.mixers;
  return figure;
}

}  // namespace mixerbench::reports
